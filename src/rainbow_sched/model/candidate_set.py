"""The candidates of a decision in order, with what every decision over the same candidates needs worked out once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter

from rainbow_sched.model.candidate import NOTHING_PLACED, Candidate, ClusterReport, OwnerLimits
from rainbow_sched.model.match import Fit


class CandidateSet(tuple[Candidate, ...]):
    """Candidates by name. While no cluster changes, many decisions use the same set."""

    def __new__(cls, candidates: Iterable[Candidate]) -> CandidateSet:
        """In order."""
        return super().__new__(cls, sorted(candidates, key=attrgetter("name")))

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> CandidateSet:
        """`candidates` itself if it is one."""
        return candidates if isinstance(candidates, CandidateSet) else cls(candidates)

    def eligible(self, limits: OwnerLimits) -> CandidateSet:
        """Those that are not out by a job's limits and their fit alone."""
        some = [self.by_name[name] for name in limits.only if name in self.by_name] if limits.only else self
        kept = [c for c in some if not limits.why_not(c.name, c.fit, bid=c.bid is not None)]
        return self if len(kept) == len(self) else CandidateSet(kept)

    @cached_property
    def by_name(self) -> dict[str, Candidate]:
        """Each by its name."""
        return {c.name: c for c in self}

    @cached_property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self.by_name)

    @cached_property
    def reports(self) -> tuple[ClusterReport, ...]:
        """What each last said of itself."""
        return tuple(c.report for c in self)

    @cached_property
    def oldest(self) -> float:
        """When the oldest of these reports came; infinite if there is none."""
        return min((report.at for report in self.reports if report.at is not None), default=math.inf)

    @cached_property
    def all_now(self) -> bool:
        """True if the job fits now in each."""
        return not self.later

    @cached_property
    def unasked(self) -> bool:
        """True for the common case: nobody was asked for a bid."""
        return all(c.bid is None and not c.no_bid for c in self)

    @cached_property
    def later(self) -> tuple[tuple[int, Fit], ...]:
        """The places of those that do not fit now."""
        return tuple((i, c.fit) for i, c in enumerate(self) if c.fit is not Fit.NOW)

    @cached_property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """How many slots of each are free now and ever, if they were counted."""
        counted = any(c.slots_ever for c in self)
        return tuple((c.slots_now, c.slots_ever) for c in self) if counted else ()

    @cached_property
    def placed(self) -> dict[str, list[int]]:
        """By cluster: what was handed to it since its report."""
        return {c.name: list(c.placed) for c in self if c.placed != NOTHING_PLACED}
