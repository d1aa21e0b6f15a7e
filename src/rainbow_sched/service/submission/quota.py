"""Limit of unfinished jobs per owner, without a count at every submission."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.store.base import JobFilter, Tx

SLACK_EVENTS = 1_000  # allowance for events not yet seen


class _JobCount(NamedTuple):
    living: int
    at: int  # number of the last event at the count


@dataclass(slots=True)
class Quota:
    """Counts an owner's jobs only when the last count is too old to decide.

    Each job begins and ends with an event of its own, so the number of events since a count bounds the
    error. Used inside write transactions, which are serial.
    """

    limit: int
    _last: dict[str, _JobCount] = field(default_factory=dict)
    _seq: int | None = None  # number of the last event seen

    def likely_below_limit(self, owner: str, new_jobs: int) -> bool:
        """Return True if `check` will most likely not have to count."""
        last = self._last.get(owner, _JobCount(0, 0))
        return self._seq is not None and last.living + self._seq - last.at + SLACK_EVENTS + new_jobs <= self.limit

    def check(self, tx: Tx, owner: str, new_jobs: int) -> None:
        """Raise Exhausted if `owner` would exceed the limit with this many new jobs."""
        seq = self._seq = tx.last_seq()
        last = self._last.get(owner, _JobCount(0, 0))
        since = seq - last.at
        if last.living + since + new_jobs <= self.limit:
            return
        if last.living - since + new_jobs <= self.limit:
            counts = tx.count_jobs(JobFilter(owners=frozenset({owner})))
            living = sum(number for state, number in counts.items() if not state.terminal)
            last = self._last[owner] = _JobCount(living, seq)
        if last.living + new_jobs > self.limit:
            message = f"{owner} would have more than {self.limit} jobs that have not ended, which is the limit"
            raise Exhausted(message, retry_after=60)
