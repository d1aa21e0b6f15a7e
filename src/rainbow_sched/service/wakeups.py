"""Wake-ups inside the process: tasks wait for a topic and are notified after each commit."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from rainbow_sched.model.errors import Unavailable


class Notifier:
    """Named topics; notifying a topic wakes all tasks that wait for it."""

    def __init__(self) -> None:
        self._waiters: dict[str, dict[asyncio.Future[None], None]] = defaultdict(dict)  # in order of arrival
        self._versions: dict[str, int] = defaultdict(int)
        self.closed = False

    def version(self, topic: str) -> int:
        """Return how often the topic was notified; pass it to `wait` so that no notification is missed."""
        return self._versions[topic]

    def notify(self, topic: str) -> None:
        """Wake all tasks that wait for `topic`."""
        self._versions[topic] += 1
        for future in self._waiters.pop(topic, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, topic: str, seen: int, timeout: float | None) -> bool:
        """Return True once `topic` was notified after version `seen`, False after `timeout` seconds."""
        if self.closed:
            raise Unavailable("the server is stopping; ask again in a moment")
        if self._versions[topic] != seen:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[topic][future] = None
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            if topic in self._waiters:
                self._waiters[topic].pop(future, None)
                if not self._waiters[topic]:
                    del self._waiters[topic]
        return True

    def close(self) -> None:
        """Wake all waiting tasks and refuse new ones: the server stops."""
        self.closed = True
        for topic in list(self._waiters):
            self.notify(topic)


EVENTS = "events"
OUTPUT = "output"


def cluster_topic(name: str) -> str:
    return f"cluster {name}"
