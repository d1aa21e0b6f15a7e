"""Facts of a manager: a cache with a refresh interval, and the nodes that were reported as not up."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

from rainbow_sched.agent.backends.local.wrapper import write_whole
from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.graph import Mark

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


class MarkedNodes:
    """Nodes that were once reported as not up, on disk.

    Only for these is `up` reported, so that a mark that an operator set in Rainbow on another node is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()
        with contextlib.suppress(FileNotFoundError, ValueError):
            self._names = set(json.loads(path.read_text()))

    def report(self, not_up: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
        """Return the marks to report of the known nodes: those not up, and `up` for others that were marked before."""
        marks = {name: not_up.get(name, str(Mark.UP)) for name in known if name in not_up or name in self._names}
        if not self._names.issuperset(marks):
            self._names.update(marks)
            write_whole(self._path, sorted(self._names))
        return marks
