"""How many jobs one owner may have that have not ended, without counting them at every submission."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.store.base import JobFilter, Tx

FEW = 1_000  # events that may have happened since the last one that was seen


class _Counted(NamedTuple):
    living: int
    at: int  # the number of the last event then


@dataclass(slots=True)
class Quota:
    """Counts an owner's jobs only when the last count does not tell any more.

    A job begins and ends with an event of its own, so the number of events since a count bounds
    how far it can be off, either way. Used inside write transactions, which come one after another.
    """

    limit: int
    _last: dict[str, _Counted] = field(default_factory=dict)
    _seq: int | None = None  # the number of the last event that was seen

    def at_ease(self, owner: str, coming: int) -> bool:
        """True if `check` will most likely not have to count; for whoever wants to know beforehand."""
        known = self._last.get(owner, _Counted(0, 0))
        return self._seq is not None and known.living + self._seq - known.at + FEW + coming <= self.limit

    def check(self, tx: Tx, owner: str, coming: int) -> None:
        """Raise Exhausted if `owner` would have more than the limit with `coming` new jobs."""
        seq = self._seq = tx.last_seq()
        known = self._last.get(owner, _Counted(0, 0))
        since = seq - known.at
        if known.living + since + coming <= self.limit:
            return
        if known.living - since + coming <= self.limit:
            counts = tx.count_jobs(JobFilter(owners=frozenset({owner})))
            living = sum(number for state, number in counts.items() if not state.terminal)
            known = self._last[owner] = _Counted(living, seq)
        if known.living + coming > self.limit:
            said = f"{owner} would have more than {self.limit} jobs that have not ended, which is the limit"
            raise Exhausted(said, retry_after=60)
