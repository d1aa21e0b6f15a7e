"""The clusters that fit a job, with everything that a policy may use to choose among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from rainbow_sched.model.bid import NO_RECORD, Bid, TrackRecord
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Request, Scalar
from rainbow_sched.model.request_summary import RequestSummary

Prefer: TypeAlias = Literal["", "start", "cost"]
MAX_COUNTED = 2**31 - 1  # nodes or cores counted of a request; protocol messages hold no more


class PlacedSinceReport(NamedTuple):
    """The jobs placed on a cluster since it last reported its state."""

    jobs: int = 0
    nodes: int = 0
    cores: int = 0


NOTHING_PLACED = PlacedSinceReport()
FREE_KEYS = {"nodes_free": "nodes", "cores_free": "cores"}  # state keys that placed jobs lower
QUEUED_KEYS = ("queue_depth", "jobs_queued")  # state keys that placed jobs raise


class AdjustedCount(NamedTuple):
    """A reported number, adjusted by the jobs placed since the report."""

    reported: float
    placed: int
    now: float


def counted(state: Mapping[str, object], placed: PlacedSinceReport) -> dict[str, AdjustedCount]:
    """Return the reported numbers that placed jobs have changed, by state key."""
    if placed == NOTHING_PLACED:
        return {}
    found: dict[str, AdjustedCount] = {}
    for key, what in FREE_KEYS.items():
        taken = getattr(placed, what)
        if taken and (value := _number(state, key)) is not None:
            found[key] = AdjustedCount(value, taken, max(0.0, value - taken))
    for key in QUEUED_KEYS:
        if placed.jobs and (value := _number(state, key)) is not None:
            found[key] = AdjustedCount(value, placed.jobs, value + placed.jobs)
    return found


def _number(state: Mapping[str, object], key: str) -> float | None:
    value = state.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterReport:
    """A cluster's last reported state and its track record; one object until either changes.

    Compared by identity, so that decisions over an unchanged fleet share one fleet part.
    """

    name: str
    state: Mapping[str, object] = field(default_factory=dict)
    at: float | None = None  # epoch seconds; None: it never reported
    record: TrackRecord = NO_RECORD

    def __post_init__(self) -> None:
        if None in self.state.values():  # null is "not known", the same as absent
            object.__setattr__(self, "state", {key: value for key, value in self.state.items() if value is not None})


def age(at: float, now: float) -> float:
    """Return the seconds since a report, rounded to milliseconds."""
    return round(max(0.0, now - at), 3)


def is_stale(report: ClusterReport, now: float, stale_after: float) -> bool:
    """Return True if the report has a state that is older than `stale_after` seconds."""
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
    no_bid: str = ""  # why there is no bid: "no agent", "silent for 2 s"
    state: Mapping[str, object]  # as reported, adjusted by the jobs placed since; empty if stale
    state_age: float | None = None  # seconds since the report, for policies that want ages

    @classmethod
    def of(
        cls, report: ClusterReport, fit: Fit, *, placed: PlacedSinceReport = NOTHING_PLACED, **more: Any
    ) -> Candidate:
        """Build a candidate from a report, adjusted by the jobs placed since."""
        state = report.state
        if changed := counted(state, placed):
            state = {**state, **{key: count.now for key, count in changed.items()}}
        return cls(name=report.name, fit=fit, report=report, placed=placed, state=state, **more)

    @property
    def record(self) -> TrackRecord:
        """Return the accuracy of the cluster's bids."""
        return self.report.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The part of a request that policies see. It is stored in the decision's record for replay."""

    nodes: int = 1
    cores: int = 0
    duration: float | None = None  # seconds; None: not given
    name: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # the jobspec's attributes.parameter
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request, summary: RequestSummary | None = None) -> Demand:
        """Count the nodes and cores that `request` needs at least; each slot on a shared node counts as one node."""
        totals = (summary or RequestSummary.of(request)).totals
        return cls(
            nodes=min(max(1, totals.get("node", 0)), MAX_COUNTED),
            cores=min(totals.get("core", 0), MAX_COUNTED),
            duration=request.duration,
            name=request.name,
            parameters=request.parameters,
            options=request.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimits:
    """The limits that the job's owner sets. A limit applies only where the limited number is known."""

    deadline: float | None = None  # epoch seconds: ended by then (started by then, if no duration is given)
    max_cost: float | None = None
    only: frozenset[str] = frozenset()  # empty: every cluster
    never: frozenset[str] = frozenset()  # overrides `only`
    prefer: Prefer = ""  # replaces the policy
    later: bool = False  # may go to a cluster that it fits only later, and queue there
    otherwise: Literal["wait", "refuse"] = "wait"  # what to do when no cluster could ever run it

    def __post_init__(self) -> None:
        if self.max_cost is not None and not 0 <= self.max_cost < math.inf:
            raise Invalid(f"max_cost must be 0 or more, not {self.max_cost}")
        if self.deadline is not None and not math.isfinite(self.deadline):
            raise Invalid(f"a deadline must be a time in epoch seconds, not {self.deadline}")
        if self.prefer not in ("", "start", "cost"):
            raise Invalid(f"prefer must be start or cost, not {self.prefer!r}")
        if self.otherwise not in ("wait", "refuse"):
            raise Invalid(f"otherwise must be wait or refuse, not {self.otherwise!r}")

    def allow(self, cluster: str) -> bool:
        """Return True if the owner allows this cluster."""
        return (not self.only or cluster in self.only) and cluster not in self.never

    def why_not(self, cluster: str, fit: Fit, *, bid: bool) -> str:
        """Return why the limits and the fit exclude a cluster, or an empty text. `bid`: the cluster has bid."""
        if self.only and cluster not in self.only:
            return "not among the clusters that the owner allows"
        if cluster in self.never:
            return "excluded by the owner"
        if fit is Fit.NOW or (bid and fit is not Fit.NEVER):
            return ""
        if fit is Fit.LATER:
            return "" if self.later else "busy, fits later"
        return "does not fit" if fit is Fit.NEVER else "it is not known whether it fits"


NO_LIMITS = OwnerLimits()
