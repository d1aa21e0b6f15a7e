"""One cluster in memory, and how its attempts take what they need there: first come, or where the manager runs them."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import dataclass, field

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.model.candidate import NOTHING_PLACED, ClusterReport, PlacedSinceReport
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.request import Request

LINES = 64  # of attempts without room that are looked at when something becomes free


@dataclass(slots=True)
class Line:
    """Attempts of one request for which a cluster had no room. The first holds what there was; the others wait."""

    request: Request  # kept here, so that its `id` stays its own
    fences: deque[str] = field(default_factory=deque)  # those that have left the cluster are passed over


@dataclass(slots=True)
class Member:
    """One cluster with what has been placed on it since it last told its state."""

    cluster: Cluster
    subsystems: list[str] = field(default_factory=list)
    placed_since: PlacedSinceReport = NOTHING_PLACED
    counted: dict[str, PlacedSinceReport] = field(default_factory=dict)  # what of it each attempt is, by fence
    broken: str = ""  # its stored graph is damaged: the reason; such a cluster takes no work
    placements: dict[str, Request] = field(default_factory=dict)  # live attempts given to it, by fence
    bindable: dict[str, Request] = field(default_factory=dict)  # of those, the ones that may be bound to hosts
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # where its manager runs them, as far as reported
    displaced: dict[str, None] = field(default_factory=dict)  # of those, what found no room there beside others
    report: ClusterReport | None = None  # as decisions see it, until its row changes
    crowded: dict[int, Line] = field(default_factory=dict)  # of those, what did not find all it needs, by its request
    owners: dict[str, str] = field(default_factory=dict)  # of live attempts, by fence
    held: Counter[str] = field(default_factory=Counter)  # how many of them each owner has
    cores_per_node: float | None = None  # None: not counted yet
    bad_streak: int = 0  # failures and refusals in a row; see Settings.breaker


def hold(graphs: GraphBackend, member: Member, fence: str, request: Request) -> None:
    name = member.cluster.name
    if graphs.place(name, fence, request):
        return
    line = member.crowded.setdefault(id(request), Line(request))
    if line.fences:  # the first in line holds what there is
        graphs.release(name, fence)
    line.fences.append(fence)


def hold_next(graphs: GraphBackend, member: Member, fence: str, request: Request) -> None:
    """The same where nothing became free since the last of its kind was placed."""
    line = member.crowded.get(id(request))
    if line is None:
        hold(graphs, member, fence, request)
    else:
        line.fences.append(fence)


def _moves_up(graphs: GraphBackend, member: Member, line: Line) -> bool:
    """Let attempts that were given to a full cluster take what is free now; True if some are left."""
    name = member.cluster.name
    while line.fences:
        first = line.fences[0]
        if first in member.placements and first not in member.nodes:
            graphs.release(name, first)
            if not graphs.place(name, first, line.request):
                return True
        line.fences.popleft()
    return False


def hold_there(graphs: GraphBackend, member: Member, fence: str) -> None:
    """Let an attempt take what it needs on the nodes where it runs, or as much of it as is free there."""
    name = member.cluster.name
    member.displaced.pop(fence, None)
    if not graphs.place(name, fence, member.placements[fence], member.nodes[fence]):
        member.displaced[fence] = None  # another one is counted there, and will be reported elsewhere


def room_came_back(graphs: GraphBackend, member: Member) -> None:
    """Let those take what is free now that found too little when they were counted."""
    for fence in list(itertools.islice(member.displaced, LINES)):
        graphs.release(member.cluster.name, fence)
        hold_there(graphs, member, fence)
    for key in list(itertools.islice(member.crowded, LINES)):
        line = member.crowded.pop(key)
        if _moves_up(graphs, member, line):
            member.crowded[key] = line  # behind those that were not looked at
