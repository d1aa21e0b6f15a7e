"""Cache of a manager's facts with a refresh interval."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import RainbowError

log = logging.getLogger("rainbow.agent")


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
