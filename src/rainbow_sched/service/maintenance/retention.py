"""Forget finished jobs that are older, or more, than the operator wants to keep; a few at a time."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

DAY = 86_400.0
AT_ONCE = 200
COUNT_EVERY = 60.0
SURELY_OVER = 3_600.0  # seconds after its end; before, somebody may repeat its submission or fetch its output


@dataclass(slots=True)
class Retention:
    """One small step a second. By default nothing is ever removed."""

    core: Core
    _counted_at: float = 0.0
    _too_many: int = 0

    async def step(self, now: float) -> int:
        """Remove what is due; how many jobs that were."""
        days, most = self.core.settings.keep_days, self.core.settings.keep_jobs
        removed = await self._remove(now - days * DAY, AT_ONCE) if days else 0
        if most and now - self._counted_at >= COUNT_EVERY:
            self._counted_at = now
            self._too_many = await self.core.store.read(lambda tx: tx.count_finished()) - most
        if most and self._too_many > 0:
            gone = await self._remove(now - SURELY_OVER, min(self._too_many, AT_ONCE))
            self._too_many = self._too_many - gone if gone else 0
            removed += gone
        return removed

    async def _remove(self, before: float, limit: int) -> int:
        def work(tx: Tx, fx: Effects) -> int:
            return tx.remove_finished(before, limit)

        return await self.core.write(work)
