"""Locks around submissions: one per tag at a time, and a limit in all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class _TagLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0  # number of holders and waiters


class SubmitLocks:
    """Locks by tag, with a limit on concurrent submissions."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._locks: dict[str, _TagLock] = {}

    @contextlib.asynccontextmanager
    async def of(self, tag: str) -> AsyncIterator[None]:
        """Hold the lock of a tag."""
        turn = self._locks.setdefault(tag, _TagLock())
        turn.wanted += 1
        try:
            async with turn.lock, self._free:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._locks[tag]
