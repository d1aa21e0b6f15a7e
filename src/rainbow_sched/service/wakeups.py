"""Wake-ups inside the process: who waits for news of a cluster or of any job is told after each commit."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from rainbow_sched.model.errors import Unavailable


class Notifier:
    """Named bells. Ringing one wakes everybody who waits for it; nobody waiting costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = defaultdict(dict)  # in the order they came
        self._rung: dict[str, int] = defaultdict(int)
        self.closed = False

    def count(self, bell: str) -> int:
        """How often it rang; pass it to `wait` to miss nothing that rings in between."""
        return self._rung[bell]

    def ring(self, bell: str) -> None:
        """Wake everybody who waits for `bell`."""
        self._rung[bell] += 1
        for future in self._waiting.pop(bell, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, bell: str, seen: int, timeout: float | None) -> bool:
        """Return True once `bell` has rung since `seen` was counted, False after `timeout` seconds."""
        if self.closed:
            raise Unavailable("the server is stopping; ask again in a moment")
        if self._rung[bell] != seen:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[bell][future] = None
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            if bell in self._waiting:
                self._waiting[bell].pop(future, None)
                if not self._waiting[bell]:
                    del self._waiting[bell]
        return True

    def close(self) -> None:
        """The server stops: nobody waits any longer."""
        self.closed = True
        for bell in list(self._waiting):
            self.ring(bell)


EVENTS = "events"
OUTPUT = "output"


def cluster_topic(name: str) -> str:
    """The bell of one cluster's agents."""
    return f"cluster {name}"
