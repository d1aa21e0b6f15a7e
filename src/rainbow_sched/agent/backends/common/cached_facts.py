"""Facts that are looked for at most once per interval, and whose absence never keeps news of jobs back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from rainbow_sched.agent.core.values import Facts
from rainbow_sched.model.errors import RainbowError

log = logging.getLogger("rainbow.agent")


class KeptFacts:
    """The last facts of a manager. The clock is passed in."""

    def __init__(self, manager: str, interval: float, clock: Callable[[], float]) -> None:
        self._interval, self._clock = interval, clock
        self._at: float | None = None
        self._last = Facts(manager=manager)

    def expire(self) -> None:
        """Look anew at the next question."""
        self._at = None

    async def get(self, look: Callable[[], Awaitable[Facts]]) -> Facts:
        """The facts; `look` finds new ones. If it fails the old ones stand: they are advice, and get old visibly."""
        now = self._clock()
        if self._at is None or now - self._at >= self._interval:
            self._at = now
            try:
                self._last = await look()
            except RainbowError as problem:
                log.warning("what is free here cannot be told: %s", problem)
        return self._last
