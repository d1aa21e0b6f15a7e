"""A request with everything that is derived from it, made once where its text is read."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.model.candidate import Demand, PlacedSinceReport
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRequest:
    """One request as the service, matching and selection take it; `jobspecs.preparation.prepare` makes it.

    Compared by identity; compare `text` or `match_key` instead.
    """

    request: Request
    text: str  # canonical JSON, as stored with jobs
    digest: str  # SHA-256 of `text`, in hex
    match_key: str  # equal for requests that matching cannot tell apart
    summary: RequestSummary
    demand: Demand
    size: PlacedSinceReport  # of one job

    @property
    def may_bind(self) -> bool:
        """Return True if a list of hosts may have to express some constraints; see `model/binding.py`."""
        return self.summary.may_bind
