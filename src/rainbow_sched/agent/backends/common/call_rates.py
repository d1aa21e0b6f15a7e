"""How often a manager is called: polls, facts, and concurrent submissions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import RainbowError

log = logging.getLogger("rainbow.agent")
FIRST_SECONDS = 0.2  # before the first poll after an action; it grows while nothing changes
GROWTH = 1.5  # factor between two polls that find nothing new
FILE_CHECK_SECONDS = 2.0  # seconds between checks of running jobs' files


class PollInterval:
    """The wait between two polls: short after an action, growing while nothing changes."""

    def __init__(self, *, cap: float) -> None:
        self._cap = cap
        self._next = min(FIRST_SECONDS, cap)
        self._woken = asyncio.Event()

    def reset(self) -> None:
        """Poll soon, after an action."""
        self._next = min(FIRST_SECONDS, self._cap)
        self._woken.set()

    async def wait(self, news: Callable[[], bool]) -> None:
        """Wait for the current interval; less after `reset`, or when `news` finds changed files."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._next
        while (left := until - loop.time()) > 0:
            if self._woken.is_set():
                self._woken.clear()
                await asyncio.sleep(self._next)
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(left, FILE_CHECK_SECONDS))
                continue
            if left > FILE_CHECK_SECONDS and await asyncio.to_thread(news):
                self._next = min(FIRST_SECONDS, self._cap)
                return
        self._next = min(self._cap, self._next * GROWTH)


class CachedFacts:
    """The last facts of a manager. The clock is passed in."""

    def __init__(self, manager: str, interval: float, clock: Callable[[], float]) -> None:
        self._interval, self._clock = interval, clock
        self._at: float | None = None
        self._last = ClusterFacts(manager=manager)

    def expire(self) -> None:
        """Refresh at the next call."""
        self._at = None

    async def get(self, look: Callable[[], Awaitable[ClusterFacts]]) -> ClusterFacts:
        """Return the facts, refreshed by `look` if they are old; keep the old ones if that fails."""
        now = self._clock()
        if self._at is None or now - self._at >= self._interval:
            self._at = now
            try:
                self._last = await look()
            except RainbowError as problem:
                log.warning("free resources could not be read: %s", problem)
        return self._last


class SubmitLocks:
    """Locks by tag, with a limit on concurrent submissions."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted = Counter[str]()  # holders and waiters by tag

    @contextlib.asynccontextmanager
    async def of(self, tag: str) -> AsyncIterator[None]:
        """Hold the lock of a tag."""
        self._wanted[tag] += 1
        try:
            async with self._locks.setdefault(tag, asyncio.Lock()), self._free:
                yield
        finally:
            self._wanted[tag] -= 1
            if not self._wanted[tag]:
                del self._locks[tag], self._wanted[tag]
