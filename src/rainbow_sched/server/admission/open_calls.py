"""Close streams and long polls within a second after their credential is revoked or loses rights.

The monitor runs in the background: it re-authenticates open calls when rights have changed, writes refused calls to the
audit log, and records the last use of tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Denied, Exhausted, RainbowError, Unauthenticated
from rainbow_sched.service.access.audit import RefusedCallCounter, write_refusals
from rainbow_sched.service.access.principals import revision
from rainbow_sched.service.clusters.rules import refresh_groups
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
CHECK_SECONDS = 0.4
FLUSH_SECONDS = 1.0
LAST_USE_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class OpenCall:
    """A stream or long poll, and how to authenticate its caller again."""

    principal: Principal
    again: Callable[[], Awaitable[Principal]]
    task: asyncio.Task[object]
    until: float | None = None  # when its credential expires, as of the last check
    cut: bool = False

    async def check(self) -> None:
        """Cancel the call if its caller is no longer admitted or has fewer rights."""
        try:
            now = await self.again()
        except (Unauthenticated, Denied):
            self._end()
            return
        except Exhausted:
            return
        before = self.principal
        self.until = now.until  # a rotation may have set an expiry
        if now.name != before.name or not (before.scopes <= now.scopes and before.group_members <= now.group_members):
            self._end()

    def _end(self) -> None:
        self.cut = True
        self.task.cancel()


class OpenCallMonitor:
    """Checks open calls, and writes refused calls and token uses to the store."""

    def __init__(self, core: Core, refusals: RefusedCallCounter) -> None:
        self._core, self._store, self._clock = core, core.store, core.clock
        self._credential_resolver, self._refusals = core.credential_resolver, refusals
        self._calls: set[OpenCall] = set()
        self._seen = (-1, -1)  # revisions: of the database, of this process
        self._flushed = self._noted = 0.0

    @contextlib.contextmanager
    def watching(self, principal: Principal, again: Callable[[], Awaitable[Principal]]) -> Iterator[OpenCall]:
        """Watch the current call while the block runs; a revoked credential cancels the block."""
        task = asyncio.current_task()
        assert task is not None
        call = OpenCall(principal, again, task, principal.until)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)

    async def run(self) -> None:
        """Check until cancelled. An unreachable database is retried at the next check."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check()
                now = self._clock.now()
                if abs(now - self._flushed) >= FLUSH_SECONDS:
                    await self.flush()
            except RainbowError as error:
                log.warning("cannot check open calls: %s", error)
            except Exception:  # the next check must run after any error
                log.exception("checking open calls failed")

    async def check(self) -> None:
        """Check all calls if rights have changed, else those with an expired credential."""
        stored = await self._store.read(revision)
        now = self._clock.now()
        known, self._seen = self._seen, (stored, self._credential_resolver.revision)
        if known[0] != stored:
            self._credential_resolver.forget()
            await refresh_groups(self._core)
            self._seen = (stored, self._credential_resolver.revision)
        changed = known != self._seen
        for call in list(self._calls):
            over = call.until is not None and now >= call.until
            if (changed or over) and call in self._calls and not call.cut:
                await call.check()

    async def flush(self, *, all: bool = False) -> None:
        """Write refused calls, and every `LAST_USE_SECONDS`, or with `all`, the last use of tokens."""
        now = self._flushed = self._clock.now()
        refused = self._refusals.take()
        uses: dict[str, float] = {}
        if all or abs(now - self._noted) >= LAST_USE_SECONDS:
            self._noted, uses = now, self._credential_resolver.take_uses()
        if not refused and not uses:
            return

        def work(tx: Tx) -> None:
            write_refusals(tx, refused, now)
            for id, at in uses.items():
                tx.touch_credential(id, at)

        await self._store.write(work)
