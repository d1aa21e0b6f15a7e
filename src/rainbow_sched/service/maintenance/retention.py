"""Delete finished jobs beyond the configured age or number, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

DAY_SECONDS = 86_400.0
JOBS_PER_WRITE = 200
COUNT_INTERVAL_SECONDS = 60.0
MIN_AGE_SECONDS = 3_600.0  # of a finished job; its submission may be retried or its output fetched


@dataclass(slots=True)
class Retention:
    """Deletes a few finished jobs per step; off by default."""

    core: Core
    _counted_at: float = 0.0
    _too_many: int = 0

    async def step(self, now: float) -> int:
        """Delete what is due; return the number of jobs."""
        days, most = self.core.settings.keep_days, self.core.settings.keep_jobs
        removed = await self._remove(now - days * DAY_SECONDS, JOBS_PER_WRITE) if days else 0
        if most and now - self._counted_at >= COUNT_INTERVAL_SECONDS:
            self._counted_at = now
            self._too_many = await self.core.store.read(lambda tx: tx.count_finished()) - most
        if most and self._too_many > 0:
            gone = await self._remove(now - MIN_AGE_SECONDS, min(self._too_many, JOBS_PER_WRITE))
            self._too_many = self._too_many - gone if gone else 0
            removed += gone
        return removed

    async def _remove(self, before: float, limit: int) -> int:
        def work(tx: Tx, fx: Effects) -> int:
            return tx.remove_finished(before, limit)

        return await self.core.write(work)
