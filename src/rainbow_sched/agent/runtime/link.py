"""The agent's connection to the server: the Sync call, when to repeat it, and the rotation of the secret.

The secret is rotated periodically and on the server's request. A crash at any step is safe:
1. Write the new secret beside the old one. 2. Register its digest with the server: both are valid.
3. Use the new one: the server revokes the old one. 4. Move the new file over the old one.
After a crash the file beside the old one shows that a rotation is incomplete, and it is repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rainbow_sched.agent.options import SECRET_ENV, SECRET_FILE, AgentOptions
from rainbow_sched.client.clusters import RENEW, SYNC
from rainbow_sched.client.connection import Connection, Timeouts
from rainbow_sched.client.private_files import check_private, sync_folder, write_whole
from rainbow_sched.client.settings import ClientSettings, read_secret
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.credential import CredentialKind, compose, digest, id_of
from rainbow_sched.model.errors import (
    AlreadyExists,
    Conflict,
    Denied,
    Exhausted,
    Invalid,
    RainbowError,
    Unauthenticated,
)
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, request_to_proto
from rainbow_sched.protocol.messages import SyncAnswer, SyncMessage, SyncRequest

log = logging.getLogger("rainbow.agent")
CALL_MARGIN_SECONDS = 10.0  # seconds that a call may take beyond its wait
TIMEOUTS = Timeouts(connect=5.0, unreachable=0.0)  # each server once; the agent retries by itself
MAX_INITIAL_REFUSALS = 3  # refusals before the first answer after which the credential is wrong
SECRET_SOURCES = (
    "the agent's secret comes from --secret-file, RAINBOW_AGENT_SECRET, its state directory or the config, in this "
    "order: put the cluster's current secret there, or delete the cluster and register it again"
)
SLOW_RETRY_SECONDS = 30.0  # after a refusal that a quick retry does not change, such as an invalid credential
CONFLICT_TIMEOUT_SECONDS = 10.0  # seconds; the call of a killed agent may still be open on the server
AGE_CHECK_SECONDS = 3_600.0  # seconds between checks of the secret's age
RENEWAL_RETRY_SECONDS = 30.0  # doubled with each failure in a row, up to AGE_CHECK_SECONDS
_LETTERS = string.ascii_lowercase + string.digits


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


class Rotation:
    def __init__(self, home: Path, link: ServerLink, *, every: float, clock: Callable[[], float] = time.time) -> None:
        self.home, self.beside = home, home.with_name(f"{home.name}.next")
        self._link, self._every, self._clock = link, every, clock
        self._pending = self.beside.exists()
        if self._pending:
            check_private(self.beside)
            link.spare = read_secret(str(self.beside), "the cluster's next secret")

    async def run(self) -> None:
        """Rotate when due or requested, until cancelled; a failure is retried and the old secret stays in use."""
        failures = 0
        while True:
            try:
                age = self._clock() - self.home.stat().st_mtime
                if self._pending or self._link.renewal_requested.is_set() or age >= self._every:
                    self._link.renewal_requested.clear()
                    await self.renew()
                failures = 0
            except (RainbowError, OSError) as problem:
                log.warning("the secret could not be renewed, retrying: %s", problem)
                failures += 1
            pause = min(AGE_CHECK_SECONDS, RENEWAL_RETRY_SECONDS * 2**failures if failures else self._every)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._link.renewal_requested.wait(), pause)

    async def renew(self) -> None:
        """Rotate the secret, continuing an earlier incomplete rotation."""
        self._pending = True
        text = self._next()
        id, old = id_of(text) or "", self._link.secret
        self._link.spare = text
        try:
            await self._link.renew(text, id, digest(text))
        except Unauthenticated:  # the normal case: the server does not have the new secret yet
            try:
                await self._link.renew(old, id, digest(text))
            except AlreadyExists:  # revoked meanwhile, or the id is taken: use a new one next time
                self.beside.unlink()
                raise
            await self._link.renew(text, id, digest(text))
        self.beside.replace(self.home)
        sync_folder(self.home.parent)
        self._link.secret, self._link.spare, self._pending = text, "", False
        log.info("renewed the cluster's secret in %s", self.home)

    def _next(self) -> str:
        """Return the next secret: the one of an incomplete rotation, or a new one, written to disk."""
        if self.beside.exists():
            return read_secret(str(self.beside), "the cluster's next secret")
        id = "".join(secrets.choice(_LETTERS) for _ in range(12))
        text = compose(CredentialKind.AGENT, id, secrets.token_urlsafe(32))
        write_whole(self.beside, f"{text}\n".encode())
        return text


def rotation_of(options: AgentOptions, environment: Mapping[str, str], link: ServerLink) -> Rotation | None:
    """Return the rotation of the agent's secret; None if it comes from the environment or the config file."""
    if options.secret_file:
        home = Path(options.secret_file).resolve()
    elif environment.get(SECRET_ENV):
        return None
    else:
        home = options.state_dir / SECRET_FILE
    return Rotation(home, link, every=options.renew_every) if options.renew_every > 0 and home.exists() else None
