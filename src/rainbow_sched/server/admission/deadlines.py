"""Ends calls that take too long, with one timer for all of them."""

from __future__ import annotations

import asyncio


class Deadlines:
    """Calls that have the same number of seconds: whichever began first is due first, so one timer serves all.

    A timer for each call would cost it more than all other checks together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[asyncio.Task[object], float] = {}  # the first begun first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, call: asyncio.Task[object]) -> None:
        """A call begins; when its time is over, it is cancelled."""
        loop = asyncio.get_running_loop()
        self._due[call] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._look, loop)

    def end(self, call: asyncio.Task[object]) -> bool:
        """It ended; False if its time was over before."""
        return self._due.pop(call, None) is not None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for call, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._look, loop)
                return
            del self._due[call]
            call.cancel()
