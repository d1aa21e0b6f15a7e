"""Adaptive poll interval: short after an action, growing while nothing changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

FIRST = 0.2  # seconds
GROWTH = 1.5
LOOK = 2.0  # seconds between checks of running jobs' files


class PollInterval:
    """The wait between two polls."""

    def __init__(self, *, cap: float) -> None:
        self._cap = cap
        self._next = min(FIRST, cap)
        self._woken = asyncio.Event()

    def hurry(self) -> None:
        """Poll soon, after an action."""
        self._next = min(FIRST, self._cap)
        self._woken.set()

    async def wait(self, news: Callable[[], bool]) -> None:
        """Wait for the current interval; less after `hurry`, or when `news` finds changed files."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._next
        while (left := until - loop.time()) > 0:
            if self._woken.is_set():
                self._woken.clear()
                await asyncio.sleep(self._next)
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(left, LOOK))
                continue
            if left > LOOK and await asyncio.to_thread(news):
                self._next = min(FIRST, self._cap)
                return
        self._next = min(self._cap, self._next * GROWTH)
