"""Time as the service sees it: passed in, so that tests and the simulator own it."""

from __future__ import annotations

import time
from typing import Protocol

A_NAP = 1.0  # seconds; less is the difference between two readings


class Clock(Protocol):
    """Seconds since the epoch that never run backwards within one process."""

    def now(self) -> float:
        """The time."""
        ...

    def slept(self) -> float:
        """How long the machine slept since this was asked last: the clock stood still then, and moves on with this."""
        ...


class AnchoredClock:
    """The wall clock at the start plus the monotonic clock since: a jump of the wall clock changes no lease."""

    def __init__(self) -> None:
        self._anchor = time.time() - time.monotonic()
        self._asleep = _asleep()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._anchor + time.monotonic()

    def slept(self) -> float:
        """Seconds since this was asked last in which the machine was suspended, as a closed laptop is."""
        asleep = _asleep()
        seconds = asleep - self._asleep
        if seconds < A_NAP:
            return 0.0
        self._asleep = asleep
        self._anchor += seconds
        return seconds


def _asleep() -> float:
    """How long the machine has slept since it was started; only Linux tells."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if boot is None else time.clock_gettime(boot) - time.monotonic()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self._now, self._asleep = now, 0.0

    def now(self) -> float:
        """The time it was set to."""
        return self._now

    def slept(self) -> float:
        """What `sleep` was told since this was asked last."""
        seconds, self._asleep = self._asleep, 0.0
        self._now += seconds
        return seconds

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep."""
        self._asleep += seconds

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._now += seconds
