"""How long to wait before a manager is asked again: little after something was done, ever more while all is quiet."""

from __future__ import annotations

import asyncio
import contextlib

FIRST = 0.2  # seconds
GROWTH = 1.5


class Pace:
    """Waits between two questions."""

    def __init__(self, *, cap: float) -> None:
        self._cap = cap
        self._next = min(FIRST, cap)
        self._woken = asyncio.Event()

    def hurry(self) -> None:
        """Something was done: ask soon."""
        self._next = min(FIRST, self._cap)
        self._woken.set()

    async def wait(self) -> None:
        """Return after the present pause, or the shortest one after `hurry`."""
        if self._woken.is_set():
            self._woken.clear()
            await asyncio.sleep(self._next)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._next)
        self._next = min(self._cap, self._next * GROWTH)
