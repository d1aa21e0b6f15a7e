"""Clock of the service, passed in so that tests and the simulation control time."""

from __future__ import annotations

import time
from typing import Protocol

MIN_SLEEP_SECONDS = 1.0  # a smaller difference is a reading error


class Clock(Protocol):
    """Seconds since the epoch that never run backwards within one process."""

    def now(self) -> float:
        """Return the time."""
        ...

    def seconds_slept(self) -> float:
        """Return for how long the machine was suspended since the last call, and advance the clock by it."""
        ...


class AnchoredClock:
    """Wall clock at the start plus the monotonic clock since: jumps of the wall clock change no lease."""

    def __init__(self) -> None:
        self._anchor = time.time() - time.monotonic()
        self._suspended_seconds = _suspended_seconds()

    def now(self) -> float:
        return self._anchor + time.monotonic()

    def seconds_slept(self) -> float:
        asleep = _suspended_seconds()
        seconds = asleep - self._suspended_seconds
        if seconds < MIN_SLEEP_SECONDS:
            return 0.0
        self._suspended_seconds = asleep
        self._anchor += seconds
        return seconds


def _suspended_seconds() -> float:
    """Return for how long the machine was suspended since boot; 0 where the system does not tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if boot is None else time.clock_gettime(boot) - time.monotonic()
