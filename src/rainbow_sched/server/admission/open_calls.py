"""Calls that stay open: cut within a second when the credential that opened them is good no more.

The keeper is the gate's one background task: it looks at open calls when rights changed
anywhere on the database, writes refusals to the audit log, and notes the last use of tokens.
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
from rainbow_sched.service.clusters.rules import refresh
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
LOOK_EVERY = 0.4  # seconds
FLUSH_EVERY = 1.0
USES_EVERY = 30.0


@dataclass(slots=True, eq=False)
class OpenCall:
    """One call that waits or streams, and how to name its caller again."""

    principal: Principal
    again: Callable[[], Awaitable[Principal]]
    task: asyncio.Task[object]
    until: float | None = None  # when its credential ends, as it was last seen
    cut: bool = False

    async def look(self) -> None:
        """Cut it if its caller would not be let in any more, or would have less."""
        try:
            now = await self.again()
        except (Unauthenticated, Denied):
            self._end()
            return
        except Exhausted:
            return
        before = self.principal
        self.until = now.until  # it may have got an end since: it was rotated
        if now.name != before.name or not (before.scopes <= now.scopes and before.group_members <= now.group_members):
            self._end()

    def _end(self) -> None:
        self.cut = True
        self.task.cancel()


class OpenCalls:
    """Every call that stays open."""

    def __init__(self) -> None:
        self._calls: set[OpenCall] = set()

    @contextlib.contextmanager
    def holding(self, principal: Principal, again: Callable[[], Awaitable[Principal]]) -> Iterator[OpenCall]:
        """Look after this call while the block runs; when it is cut, the block is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        call = OpenCall(principal, again, task, principal.until)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)

    async def look(self, now: float, *, all: bool) -> None:
        """Look at all calls, or at those whose credential has run out."""
        for call in list(self._calls):
            over = call.until is not None and now >= call.until
            if (all or over) and call in self._calls and not call.cut:
                await call.look()


class OpenCallMonitor:
    """What the gate does beside calls."""

    def __init__(self, core: Core, calls: OpenCalls, refusals: RefusedCallCounter) -> None:
        self._core, self._store, self._clock, self._credential_resolver = (
            core,
            core.store,
            core.clock,
            core.credential_resolver,
        )
        self._calls, self._refusals = calls, refusals
        self._seen = (-1, -1)  # revisions: of the database, of this process
        self._flushed = self._noted = 0.0

    async def run(self) -> None:
        """Until cancelled. A database out of reach is tried again at the next look."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.look()
                now = self._clock.now()
                if abs(now - self._flushed) >= FLUSH_EVERY:
                    await self.flush()
            except RainbowError as error:
                log.warning("cannot look after open calls: %s", error)
            except Exception:  # whatever it is, calls must still be cut at the next look
                log.exception("looking after open calls failed")

    async def look(self) -> None:
        """Cut what must be cut."""
        stored = await self._store.read(revision)
        now = self._clock.now()
        known, self._seen = self._seen, (stored, self._credential_resolver.revision)
        if known[0] != stored:
            self._credential_resolver.forget()
            await refresh(self._core)
            self._seen = (stored, self._credential_resolver.revision)
        await self._calls.look(now, all=known != self._seen)

    async def flush(self, *, all: bool = False) -> None:
        """Write refusals, and the last use of tokens: every `USES_EVERY` seconds, or `all` now."""
        now = self._flushed = self._clock.now()
        refused = self._refusals.take()
        uses: dict[str, float] = {}
        if all or abs(now - self._noted) >= USES_EVERY:
            self._noted, uses = now, self._credential_resolver.uses()
        if not refused and not uses:
            return

        def work(tx: Tx) -> None:
            write_refusals(tx, refused, now)
            for id, at in uses.items():
                tx.touch_credential(id, at)

        await self._store.write(work)
