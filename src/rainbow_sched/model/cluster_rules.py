"""A cluster's own rules: who may use it, and how much one job or one user may ask for."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rainbow_sched.model.credential import user_name
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Level, Request

MOST_NAMES = 1_000
SUBMITTER = "submitter:"  # before a cluster's name: whoever holds the token that its registration gave


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    """None, empty or False: no limit."""

    users: frozenset[str] = frozenset()  # with `groups`: these and nobody else
    groups: frozenset[str] = frozenset()
    max_nodes: int | None = None
    max_time: float | None = None  # seconds
    max_queued: int | None = None  # jobs of one user there that have not ended
    signed: bool = False  # its agents run signed jobs only

    def __post_init__(self) -> None:
        if len(self.users) + len(self.groups) > MOST_NAMES:
            raise Invalid(f"the rules of a cluster name at most {MOST_NAMES} users and groups; name groups")
        for name in (*self.users, *self.groups):
            user_name(name.removeprefix(SUBMITTER))
        for what, limit in (("nodes", self.max_nodes), ("seconds", self.max_time), ("jobs", self.max_queued)):
            if limit is not None and not 0 < limit < 10**9:
                raise Invalid(f"a limit of {limit:g} {what} makes no sense; it is a number from 1 up")

    @staticmethod
    def of(values: Mapping[str, object]) -> ClusterRules:
        """The rules that `to_json` wrote."""
        users, groups = values.get("users", ()), values.get("groups", ())
        nodes, time, queued = (values.get(key) for key in ("max_nodes", "max_time", "max_queued"))
        return ClusterRules(
            users=frozenset(map(str, users)) if isinstance(users, list) else frozenset(),
            groups=frozenset(map(str, groups)) if isinstance(groups, list) else frozenset(),
            max_nodes=nodes if isinstance(nodes, int) else None,
            max_time=float(time) if isinstance(time, int | float) else None,
            max_queued=queued if isinstance(queued, int) else None,
            signed=values.get("signed") is True,
        )

    def to_json(self) -> dict[str, object]:
        """As plain values, only what is said."""
        said: dict[str, object] = {
            "users": sorted(self.users),
            "groups": sorted(self.groups),
            "max_nodes": self.max_nodes,
            "max_time": self.max_time,
            "max_queued": self.max_queued,
            "signed": self.signed,
        }
        return {key: value for key, value in said.items() if value}

    def admits(self, owner: str, groups: Collection[str]) -> bool:
        """True if jobs of this owner may come here at all; for anybody else the cluster does not exist."""
        if not self.users and not self.groups:
            return True
        return owner in self.users or not self.groups.isdisjoint(groups)

    def refuses(self, request: Request, *, per_node: float, signed: bool, queued: int) -> tuple[Fit, str] | None:
        """Why a job does not come here, and whether it might later; None: it may.

        `per_node`: cores of a node there. `queued`: its owner's jobs there.
        """
        if self.max_nodes is not None and (nodes := requested_nodes(request, per_node)) > self.max_nodes:
            asks = f"asks {nodes:g}" if nodes < math.inf else "takes as many as there are"
            return Fit.NEVER, f"allows at most {self.max_nodes} nodes per job; this job {asks}"
        if self.max_time is not None:
            most = short_duration(self.max_time)
            if request.duration is None:
                return Fit.NEVER, f"allows at most {most} per job; this job does not say how long it takes (-t)"
            if request.duration > self.max_time:
                return Fit.NEVER, f"allows at most {most} per job; this job asks {short_duration(request.duration)}"
        if self.signed and not signed:
            return Fit.NEVER, "runs signed jobs only; this job is not signed (--sign)"
        if self.max_queued is not None and queued >= self.max_queued:
            return Fit.UNKNOWN, f"allows at most {self.max_queued} jobs of one user at a time; its owner has {queued}"
        return None


def requested_nodes(request: Request, per_node: float) -> float:
    """How many nodes a job may come to have, the fewest where its parts can share nodes of `per_node` cores."""
    return max(1.0, sum(_nodes(level, per_node) for group in request.groups for level in group.levels))


def _nodes(level: Level, per_node: float) -> float:
    count = _most(level)
    if level.type == "node":
        if not level.shared:
            return count
        each = max(1.0, sum(map(_cores, level.inside)))
        return _up(count / max(1.0, per_node // each)) if count < math.inf else count
    if any(below.type == "node" for below in level.walk()):
        return count * sum(_nodes(child, per_node) for child in level.inside)
    return _up(_cores(level) / max(1.0, per_node))


def _cores(level: Level) -> float:
    count = _most(level)
    if level.type == "core":
        return count
    below = sum(map(_cores, level.inside))
    return count * below if below else 0.0


def _most(level: Level) -> float:
    return math.inf if level.count.max is None else float(level.count.max)


def _up(number: float) -> float:
    return float(math.ceil(number)) if number < math.inf else number


def short_duration(seconds: float) -> str:
    """`2h`, `1.5h`, `30m` or `90s`: a time limit as people write it."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and seconds * 2 % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
