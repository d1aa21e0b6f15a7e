"""The agent's connection to the server: the Sync call, with timeout and credential."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from rainbow_sched import __version__
from rainbow_sched.client.clusters import RENEW, SYNC
from rainbow_sched.client.connection import Connection, Timeouts
from rainbow_sched.client.settings import ClientSettings
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Unauthenticated
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, request_to_proto
from rainbow_sched.protocol.messages import SyncAnswer, SyncMessage, SyncRequest

CALL_MARGIN_SECONDS = 10.0  # seconds that a call may take beyond its wait
TIMEOUTS = Timeouts(connect=5.0, unreachable=0.0)  # each server once; the agent retries by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The agent's identity in each Sync."""

    cluster: str
    epoch: str  # random, one per process start
    secret: str = field(repr=False)
    manager: str = ""
    accept_only: str = ""
    order_by: str = ""
    guards: bool = False  # see `Backend.guards_runs`
    node_rules: NodeRules = field(default_factory=NodeRules)  # see `Backend.node_rules`


class ServerLink:
    """Send messages; every failure is an error of `model/errors.py`."""

    def __init__(self, settings: ClientSettings, identity: Identity) -> None:
        self.identity = identity
        self.node_rules: Callable[[], NodeRules] = lambda: identity.node_rules  # read before each Sync
        self.secret, self.spare = identity.secret, ""  # `spare`: the second valid secret during a rotation
        self.renewal_requested = asyncio.Event()  # the server requests a new secret
        self._connection = Connection(settings, timeouts=TIMEOUTS)

    async def sync(self, message: SyncMessage) -> SyncAnswer:
        """Send one message and return its answer."""
        identity = self.identity
        request = request_to_proto(
            SyncRequest(
                message=message,
                cluster=identity.cluster,
                epoch=identity.epoch,
                manager=identity.manager,
                version=__version__,
                accept_only=identity.accept_only,
                order_by=identity.order_by,
                guards=identity.guards,
                node_rules=self.node_rules(),
                recalls=True,
            )
        )
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
        request = agents_pb2.RenewRequest(cluster=self.identity.cluster, id=id, digest=digest)
        await self._connection.call(RENEW, request, bearer=bearer)

    async def close(self) -> None:
        await self._connection.close()
