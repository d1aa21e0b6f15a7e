"""A cluster's own rules: who may use it, and limits per job and per user."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from rainbow_sched.model.credential import user_name
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Level, Request

MAX_NAMES_IN_RULES = 1_000  # users and groups; more belong into a group
SUBMITTER = "submitter:"  # prefix of a cluster's name: the holder of the submit token from its registration


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    """Rules of one cluster; None, empty or False means no limit."""

    users: frozenset[str] = frozenset()  # with `groups`: only these may use the cluster
    groups: frozenset[str] = frozenset()
    max_nodes: int | None = None
    max_time: float | None = None  # seconds
    max_queued: int | None = None  # unfinished jobs of one user there
    signed: bool = False  # its agents run only signed jobs

    def __post_init__(self) -> None:
        if len(self.users) + len(self.groups) > MAX_NAMES_IN_RULES:
            raise Invalid(f"cluster rules name at most {MAX_NAMES_IN_RULES} users and groups; use groups")
        for name in (*self.users, *self.groups):
            user_name(name.removeprefix(SUBMITTER))
        for what, limit in (("nodes", self.max_nodes), ("seconds", self.max_time), ("jobs", self.max_queued)):
            if limit is not None and not 0 < limit < 10**9:
                raise Invalid(f"a limit of {limit:g} {what} is out of range; give a number from 1 up")

    @staticmethod
    def of(values: Mapping[str, object]) -> ClusterRules:
        """Read the result of `to_json`."""
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
        """Return the rules that are set as JSON values."""
        values = {**asdict(self), "users": sorted(self.users), "groups": sorted(self.groups)}
        return {key: value for key, value in values.items() if value}

    def admits(self, owner: str, groups: Collection[str]) -> bool:
        """Return True if jobs of this owner may run here; the cluster is hidden from all others."""
        if not self.users and not self.groups:
            return True
        return owner in self.users or not self.groups.isdisjoint(groups)

    def refuses(self, request: Request, *, per_node: float, signed: bool, queued: int) -> tuple[Fit, str] | None:
        """Return None if the rules allow the job, else why not and whether it may be allowed later.

        `per_node`: cores of a node there. `queued`: the owner's unfinished jobs there.
        """
        if self.max_nodes is not None and (nodes := requested_nodes(request, per_node)) > self.max_nodes:
            asks = f"asks for {nodes:g}" if nodes < math.inf else "takes all available nodes"
            return Fit.NEVER, f"allows at most {self.max_nodes} nodes per job; this job {asks}"
        if self.max_time is not None:
            most = short_duration(self.max_time)
            if request.duration is None:
                return Fit.NEVER, f"allows at most {most} per job; this job has no time limit (-t)"
            if request.duration > self.max_time:
                return Fit.NEVER, f"allows at most {most} per job; this job asks for {short_duration(request.duration)}"
        if self.signed and not signed:
            return Fit.NEVER, "runs only signed jobs; this job is not signed (--sign)"
        if self.max_queued is not None and queued >= self.max_queued:
            return Fit.UNKNOWN, f"allows at most {self.max_queued} jobs per user at a time; its owner has {queued}"
        return None


def requested_nodes(request: Request, per_node: float) -> float:
    """Return the nodes that a job may occupy: a range counts as its maximum, tasks as the fewest nodes that hold them.

    `per_node`: cores of a node.
    """
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
    """Return a time limit as text: `2h`, `1.5h`, `30m` or `90s`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and seconds * 2 % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
