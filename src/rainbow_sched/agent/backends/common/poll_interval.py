"""Adaptive poll interval: short after an action, growing while nothing changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

FIRST_SECONDS = 0.2  # seconds
GROWTH = 1.5
FILE_CHECK_SECONDS = 2.0  # seconds between checks of running jobs' files


class PollInterval:
    """The wait between two polls."""

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
