"""A cluster that fits, with everything that a policy may look at when it chooses among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from rainbow_sched.model.bid import NO_RECORD, Bid, TrackRecord
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Request, Scalar

Prefer: TypeAlias = Literal["", "start", "cost"]
MOST = 2**31 - 1  # nodes or cores that are counted of a request: no cluster has more, and messages hold no more


class PlacedSinceReport(NamedTuple):
    """What was handed to a cluster since it last reported its state."""

    jobs: int = 0
    nodes: int = 0
    cores: int = 0


NOTHING_PLACED = PlacedSinceReport()


FREE = {"nodes_free": "nodes", "cores_free": "cores"}  # less by what was placed
QUEUED = ("queue_depth", "jobs_queued")  # more by the jobs placed


class AdjustedCount(NamedTuple):
    """One number of a report with what was placed since."""

    reported: float
    placed: int
    now: float


def counted(state: Mapping[str, object], placed: PlacedSinceReport) -> dict[str, AdjustedCount]:
    """The numbers of a report that are no longer true, because something was placed since."""
    if placed == NOTHING_PLACED:
        return {}
    found: dict[str, AdjustedCount] = {}
    for key, what in FREE.items():
        taken = getattr(placed, what)
        if taken and (value := _number(state, key)) is not None:
            found[key] = AdjustedCount(value, taken, max(0.0, value - taken))
    for key in QUEUED:
        if placed.jobs and (value := _number(state, key)) is not None:
            found[key] = AdjustedCount(value, placed.jobs, value + placed.jobs)
    return found


def _number(state: Mapping[str, object], key: str) -> float | None:
    value = state.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterReport:
    """What a cluster last said of itself, and what is remembered of it: one object until any of that changes.

    Compared by identity, so that what decisions write down of a fleet that has not changed is written once.
    """

    name: str
    state: Mapping[str, object] = field(default_factory=dict)
    at: float | None = None  # epoch seconds; None: it never reported
    record: TrackRecord = NO_RECORD

    def __post_init__(self) -> None:
        if None in self.state.values():  # null is "not known", the same as absent
            object.__setattr__(self, "state", {key: value for key, value in self.state.items() if value is not None})


def age(at: float, now: float) -> float:
    """Seconds since a report, to the millisecond."""
    return round(max(0.0, now - at), 3)


def is_stale(report: ClusterReport, now: float, stale_after: float) -> bool:
    """True if there is a state that is too old to be believed."""
    return report.at is not None and bool(report.state) and report.at < now - stale_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One cluster that fits, now or later, as a policy sees it."""

    name: str
    fit: Fit
    report: ClusterReport
    slots_now: int = 0
    slots_ever: int = 0
    placed: PlacedSinceReport = NOTHING_PLACED
    bid: Bid | None = None
    no_bid: str = ""  # why there is none: "no agent", "silent for 2 s"
    state: Mapping[str, object]  # as reported, with what was placed since counted; empty when too old
    state_age: float | None = None  # seconds since the report, for policies that want ages

    @classmethod
    def of(
        cls, report: ClusterReport, fit: Fit, *, placed: PlacedSinceReport = NOTHING_PLACED, **more: Any
    ) -> Candidate:
        """A cluster by its report, with what was placed since counted."""
        state = report.state
        if changed := counted(state, placed):
            state = {**state, **{key: count.now for key, count in changed.items()}}
        return cls(name=report.name, fit=fit, report=report, placed=placed, state=state, **more)

    @property
    def record(self) -> TrackRecord:
        """How its bids held so far."""
        return self.report.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What policies see of a request. All of it goes into the decision's record, so that it can be replayed."""

    nodes: int = 1
    cores: int = 0
    duration: float | None = None  # seconds; None: not said
    name: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # the jobspec's attributes.parameter
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request) -> Demand:
        """Count the nodes and cores that `request` asks for at the least; slots sharing a node count one each."""
        totals = {"node": 0, "core": 0}
        for group in request.groups:
            stack = [(level, 1) for level in group.levels]
            while stack:
                level, above = stack.pop()
                count = above * level.count.min
                if level.type in totals:
                    totals[level.type] += count
                stack.extend((child, count) for child in level.inside)
        return cls(
            nodes=min(max(1, totals["node"]), MOST),
            cores=min(totals["core"], MOST),
            duration=request.duration,
            name=request.name,
            parameters=request.parameters,
            options=request.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimits:
    """What the job's owner allows. A limit holds only where the number it limits is known."""

    deadline: float | None = None  # epoch seconds: ended by then (started by then, if no duration is said)
    max_cost: float | None = None
    only: frozenset[str] = frozenset()  # empty: every cluster
    never: frozenset[str] = frozenset()  # wins over `only`
    prefer: Prefer = ""  # takes the place of the policy
    later: bool = False  # may go to a cluster where it fits only later, and queue there
    otherwise: Literal["wait", "refuse"] = "wait"  # what to do when no cluster could ever run it

    def __post_init__(self) -> None:
        if self.max_cost is not None and not 0 <= self.max_cost < math.inf:
            raise Invalid(f"max_cost is a number from 0 up, not {self.max_cost}")
        if self.deadline is not None and not math.isfinite(self.deadline):
            raise Invalid(f"a deadline is a time in epoch seconds, not {self.deadline}")
        if self.prefer not in ("", "start", "cost"):
            raise Invalid(f"prefer is start or cost, not {self.prefer!r}")
        if self.otherwise not in ("wait", "refuse"):
            raise Invalid(f"otherwise is wait or refuse, not {self.otherwise!r}")

    def allow(self, cluster: str) -> bool:
        """True if the owner allows this cluster."""
        return (not self.only or cluster in self.only) and cluster not in self.never

    def why_not(self, cluster: str, fit: Fit, *, bid: bool) -> str:
        """Why a cluster is out by these limits and its fit alone, whether or not it gave a bid; else empty."""
        if self.only and cluster not in self.only:
            return "not among the clusters that the owner allows"
        if cluster in self.never:
            return "excluded by the owner"
        if fit is Fit.NOW or (bid and fit is not Fit.NEVER):
            return ""
        if fit is Fit.LATER:
            return "" if self.later else "fits later, not now"
        return "does not fit" if fit is Fit.NEVER else "it is not known whether it fits"


NO_LIMITS = OwnerLimits()
