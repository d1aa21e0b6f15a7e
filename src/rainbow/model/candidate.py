"""A cluster that fits, with everything that a policy may look at when it chooses among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from rainbow.model.bid import NO_RECORD, Bid, TrackRecord
from rainbow.model.errors import Invalid
from rainbow.model.match import Fit
from rainbow.model.request import Request, Scalar

Prefer: TypeAlias = Literal["", "start", "cost"]


class Placed(NamedTuple):
    """What was handed to a cluster since it last reported its state."""

    jobs: int = 0
    nodes: int = 0
    cores: int = 0


NOTHING_PLACED = Placed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One cluster that fits, now or later.

    The service gives `state` as the cluster reported it. `decide` hands policies a copy in
    which what was placed since is counted, and which is empty when the report is too old.
    """

    name: str
    fit: Fit
    slots_now: int = 0
    slots_ever: int = 0
    state: Mapping[str, object] = field(default_factory=dict)
    state_age: float | None = None  # seconds since the report; None: never reported
    placed: Placed = NOTHING_PLACED
    bid: Bid | None = None
    no_bid: str = ""  # why there is none: "no agent", "silent for 2 s"
    record: TrackRecord = NO_RECORD

    def __post_init__(self) -> None:
        if None in self.state.values():  # null is "not known", the same as absent
            object.__setattr__(self, "state", {key: value for key, value in self.state.items() if value is not None})


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
            nodes=max(1, totals["node"]),
            cores=totals["core"],
            duration=request.duration,
            name=request.name,
            parameters=request.parameters,
            options=request.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the job's owner allows. A limit holds only where the number it limits is known."""

    deadline: float | None = None  # epoch seconds: ended by then (started by then, if no duration is said)
    max_cost: float | None = None
    only: frozenset[str] = frozenset()  # empty: every cluster
    never: frozenset[str] = frozenset()  # wins over `only`
    prefer: Prefer = ""  # takes the place of the policy
    later: bool = False  # may go to a cluster where it fits only later, and queue there
    otherwise: Literal["wait", "refuse"] = "wait"  # what to do when no cluster is left

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


NO_LIMITS = Limits()
