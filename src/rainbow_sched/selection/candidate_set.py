"""The candidates of decisions over one state of the fleet, with what these decisions share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

from rainbow_sched.model.bid import NO_RECORD
from rainbow_sched.model.candidate import NOTHING_PLACED, Candidate, ClusterReport, OwnerLimits
from rainbow_sched.model.decision import FLEET_KEYS, FleetPart, encoded
from rainbow_sched.model.match import Fit

MAX_CACHED_LIMITS = 256  # bounds the memory of the cache
MAX_CACHED_PARTS = 256  # bounds the memory of the cache


class FleetPartCache:
    """Fleet parts by the reports of the clusters, which are compared by identity; the least recently used are dropped.

    A job that is placed changes the candidates, but no report, so the next decision has the same fleet part.
    """

    def __init__(self) -> None:
        self.of = lru_cache(MAX_CACHED_PARTS)(_fleet_part)


class CandidateSet(tuple[Candidate, ...]):
    """Candidates by name. While no cluster changes, many decisions use the same set and what is derived from it."""

    _fleet_parts: FleetPartCache
    _eligible: dict[OwnerLimits, CandidateSet]

    def __new__(cls, candidates: Iterable[Candidate], fleet_parts: FleetPartCache | None = None) -> CandidateSet:
        """Sort the candidates by name; `fleet_parts` are shared with other sets of the same fleet."""
        made = super().__new__(cls, sorted(candidates, key=attrgetter("name")))
        made._fleet_parts = fleet_parts or FleetPartCache()
        made._eligible = {}
        return made

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> CandidateSet:
        """Return `candidates` itself if it is a CandidateSet."""
        return candidates if isinstance(candidates, CandidateSet) else cls(candidates)

    def eligible(self, limits: OwnerLimits) -> CandidateSet:
        """Return the candidates that the limits and their fit do not exclude."""
        if self.all_now and not (limits.only or limits.never):
            return self
        known = self._eligible.get(limits)
        if known is None:
            some = [self.by_name[name] for name in limits.only if name in self.by_name] if limits.only else self
            kept = [c for c in some if not limits.why_not(c.name, c.fit, bid=c.bid is not None)]
            known = self if len(kept) == len(self) else CandidateSet(kept, self._fleet_parts)
            if len(self._eligible) >= MAX_CACHED_LIMITS:
                self._eligible.clear()
            self._eligible[limits] = known
        return known

    def fleet_part(self, misfits: Mapping[str, tuple[Fit, str]]) -> FleetPart:
        """Return the fleet part of a decision's record."""
        if not misfits:
            return self._part_without_misfits
        rows = tuple([(name, *why) for name, why in misfits.items()])
        return self._fleet_parts.of(self.reports, self.later, self.slots, rows)

    @cached_property
    def _part_without_misfits(self) -> FleetPart:
        return self._fleet_parts.of(self.reports, self.later, self.slots, ())

    @cached_property
    def by_name(self) -> dict[str, Candidate]:
        return {c.name: c for c in self}

    @cached_property
    def reports(self) -> tuple[ClusterReport, ...]:
        return tuple(c.report for c in self)

    @cached_property
    def oldest(self) -> float:
        """Return the time of the oldest report; infinity if there is none."""
        return min((report.at for report in self.reports if report.at is not None), default=math.inf)

    @cached_property
    def all_now(self) -> bool:
        """Return True if the job fits every candidate now."""
        return not self.later

    @cached_property
    def unasked(self) -> bool:
        """Return True if no candidate was asked for a bid, the common case."""
        return all(c.bid is None and not c.no_bid for c in self)

    @cached_property
    def later(self) -> tuple[tuple[int, Fit], ...]:
        """Return the positions and fits of the candidates that the job does not fit now."""
        return tuple((i, c.fit) for i, c in enumerate(self) if c.fit is not Fit.NOW)

    @cached_property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """Return the free slots of each candidate, now and ever; empty if they were not counted."""
        counted = any(c.slots_ever for c in self)
        return tuple((c.slots_now, c.slots_ever) for c in self) if counted else ()

    @cached_property
    def placed(self) -> dict[str, list[int]]:
        """Return the jobs, nodes and cores placed since the report, by cluster."""
        return {c.name: list(c.placed) for c in self if c.placed != NOTHING_PLACED}


def _fleet_part(
    reports: tuple[ClusterReport, ...],
    later: tuple[tuple[int, Fit], ...],
    slots: tuple[tuple[int, int], ...],
    misfits: tuple[tuple[str, Fit, str], ...],
) -> FleetPart:
    """Return the facts about every cluster in columns, as all decisions over these clusters store them.

    `later`: index and fit of clusters that do not fit now; `slots`: now and ever, if they were counted.
    """
    fits = [Fit.NOW.value] * len(reports)
    for i, fit in later:
        fits[i] = fit.value
    columns = {
        "name": [report.name for report in reports],
        "fit": fits,
        "slots_now": [now for now, _ in slots] or [0] * len(reports),
        "slots_ever": [ever for _, ever in slots] or [0] * len(reports),
        "at": [report.at for report in reports],
    }
    parts = (
        columns,
        _state_columns([report.state for report in reports]),
        {report.name: report.record.to_mapping() for report in reports if report.record is not NO_RECORD},
        {name: [fit.value, why] for name, fit, why in misfits},
    )
    return FleetPart(encoded(dict(zip(FLEET_KEYS, parts, strict=True))))


def _state_columns(states: list[Mapping[str, object]]) -> dict[str, Any]:
    """Return a column per key; keys that few clusters report are stored per cluster, to avoid sparse columns."""
    counts = Counter(chain.from_iterable(states))
    half = len(states) // 2
    columns = {key: [state.get(key) for state in states] for key, count in counts.items() if count > half}
    rare = counts.keys() - columns.keys()
    if not rare:
        return {"columns": columns, "rare": {}}
    by_cluster = {str(i): {k: v for k, v in state.items() if k in rare} for i, state in enumerate(states)}
    return {"columns": columns, "rare": {i: values for i, values in by_cluster.items() if values}}
