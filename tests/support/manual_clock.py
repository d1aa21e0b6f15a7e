"""Clock that tests move by hand, in place of the server's."""

from __future__ import annotations


class ManualClock:
    """Clock that tests move by hand; it implements `rainbow_sched.service.clock.Clock`."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self._now, self._suspended_seconds = now, 0.0

    def now(self) -> float:
        return self._now

    def seconds_slept(self) -> float:
        seconds, self._suspended_seconds = self._suspended_seconds, 0.0
        self._now += seconds
        return seconds

    def sleep(self, seconds: float) -> None:
        """Simulate a suspended machine."""
        self._suspended_seconds += seconds

    def advance(self, seconds: float) -> None:
        self._now += seconds
