"""The agent's connection to the server: the Sync call, with timeout and credential, and when to repeat it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from rainbow_sched.client.clusters import RENEW, SYNC
from rainbow_sched.client.connection import Connection, Timeouts
from rainbow_sched.client.settings import ClientSettings
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Conflict, Denied, Exhausted, Invalid, RainbowError, Unauthenticated
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, request_to_proto
from rainbow_sched.protocol.messages import SyncAnswer, SyncMessage, SyncRequest

CALL_MARGIN_SECONDS = 10.0  # seconds that a call may take beyond its wait
TIMEOUTS = Timeouts(connect=5.0, unreachable=0.0)  # each server once; the agent retries by itself
MAX_INITIAL_REFUSALS = 3  # refusals before the first answer after which the credential is wrong
SECRET_SOURCES = (
    "the agent's secret comes from --secret-file, RAINBOW_AGENT_SECRET, its state directory or the config, in this "
    "order: put the cluster's current secret there, or delete the cluster and register it again"
)
SLOW_RETRY_SECONDS = 30.0  # after a refusal that a quick retry does not change, such as an invalid credential
CONFLICT_TIMEOUT_SECONDS = 10.0  # seconds; the call of a killed agent may still be open on the server


class ServerLink:
    """Send messages; every failure is an error of `model/errors.py`."""

    def __init__(
        self, settings: ClientSettings, sender: SyncRequest, secret: str, node_rules: Callable[[], NodeRules]
    ) -> None:
        """Send each message as in `sender`, which says whose it is, with the `node_rules` of that moment."""
        self._sender, self._node_rules = sender, node_rules
        self.secret, self.spare = secret, ""  # `spare`: the second valid secret during a rotation
        self.renewal_requested = asyncio.Event()  # the server requests a new secret
        self._connection = Connection(settings, timeouts=TIMEOUTS)

    async def sync(self, message: SyncMessage) -> SyncAnswer:
        request = request_to_proto(replace(self._sender, message=message, node_rules=self._node_rules()))
        try:
            return await self._sync(request, message.wait + CALL_MARGIN_SECONDS)
        except Unauthenticated:
            if not self.spare:
                raise
            self.secret, self.spare = self.spare, self.secret
            return await self._sync(request, message.wait + CALL_MARGIN_SECONDS)

    async def _sync(self, request: agents_pb2.SyncRequest, timeout: float) -> SyncAnswer:
        secret = self.secret
        answer = answer_from_proto(await self._connection.call(SYNC, request, bearer=secret, timeout=timeout))
        if answer.renew and secret == self.secret:
            self.renewal_requested.set()
        return answer

    async def renew(self, bearer: str, id: str, digest: bytes) -> None:
        """Register the digest of a new secret, authenticated by `bearer`."""
        request = agents_pb2.RenewRequest(cluster=self._sender.cluster, id=id, digest=digest)
        await self._connection.call(RENEW, request, bearer=bearer)

    async def close(self) -> None:
        await self._connection.close()


class Refusals:
    """Count consecutive refusals of the server: pause, or give up. The clock is passed in."""

    def __init__(self) -> None:
        self._was_answered = False
        self._denied = 0
        self._conflict_since: float | None = None

    def answered(self) -> None:
        """Reset the counters."""
        self._was_answered, self._denied, self._conflict_since = True, 0, None

    def pause(self, problem: RainbowError, now: float) -> float | None:
        """Return the seconds until the next try, None for the usual backoff; raise `problem` if a retry is useless."""
        if isinstance(problem, Unauthenticated | Denied):
            self._denied += 1
            if not self._was_answered:
                if self._denied >= MAX_INITIAL_REFUSALS:
                    raise type(problem)(f"{problem}; {SECRET_SOURCES}")
                return 1.0
            return SLOW_RETRY_SECONDS
        if isinstance(problem, Conflict):
            if self._conflict_since is None:
                self._conflict_since = now
            if now - self._conflict_since >= CONFLICT_TIMEOUT_SECONDS:
                raise problem
            return 2.0
        if isinstance(problem, Exhausted):
            return problem.retry_after
        if isinstance(problem, Invalid):
            return SLOW_RETRY_SECONDS / 6
        return None
