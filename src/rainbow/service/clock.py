"""Time as the service sees it: passed in, so that tests and the simulator own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch that never run backwards within one process."""

    def now(self) -> float:
        """The time."""
        ...


class AnchoredClock:
    """The wall clock at the start plus the monotonic clock since: a jump of the wall clock changes no lease."""

    def __init__(self) -> None:
        self._anchor = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._anchor + time.monotonic()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        """The time it was set to."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._now += seconds
