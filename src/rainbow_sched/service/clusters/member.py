"""One cluster in memory, and how its attempts reserve resources."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import dataclass, field

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.model.candidate import NOTHING_PLACED, ClusterReport, PlacedSinceReport
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.prepared_request import PreparedRequest

MAX_RETRIES_PER_RELEASE = 64


@dataclass(slots=True)
class WaitLine:
    """Attempts of one request without enough resources. The first reserves what there is; the others wait."""

    request: PreparedRequest
    fences: deque[str] = field(default_factory=deque)  # fences that left the cluster are skipped


@dataclass(slots=True)
class Member:
    """One cluster with what was placed on it since its last state report."""

    cluster: Cluster
    subsystems: list[str] = field(default_factory=list)
    placed_since: PlacedSinceReport = NOTHING_PLACED
    counted: dict[str, PlacedSinceReport] = field(default_factory=dict)  # size of each attempt counted in it, by fence
    broken: str = ""  # why the stored graph is damaged; the cluster takes no work
    placements: dict[str, PreparedRequest] = field(default_factory=dict)  # live attempts, by fence
    bindable: dict[str, PreparedRequest] = field(default_factory=dict)  # placements that may be bound to hosts
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # reported nodes, by fence
    displaced: dict[str, None] = field(default_factory=dict)  # fences with an incomplete reservation on their nodes
    report: ClusterReport | None = None  # cached until the row changes
    overcommitted: dict[str, WaitLine] = field(default_factory=dict)  # by text of the request
    owners: dict[str, str] = field(default_factory=dict)  # of live attempts, by fence
    jobs_by_owner: Counter[str] = field(default_factory=Counter)  # live attempts by owner
    cores_per_node: float | None = None  # None: not counted yet
    failures_in_row: int = 0  # see Settings.breaker


def reserve(graphs: GraphBackend, member: Member, fence: str, request: PreparedRequest) -> None:
    name = member.cluster.name
    if graphs.place(name, fence, request):
        return
    line = member.overcommitted.setdefault(request.text, WaitLine(request))
    if line.fences:  # the first in line reserves what there is
        graphs.release(name, fence)
    line.fences.append(fence)


def reserve_next(graphs: GraphBackend, member: Member, fence: str, request: PreparedRequest) -> None:
    """Reserve for an attempt when nothing was released since an equal one was tried."""
    line = member.overcommitted.get(request.text)
    if line is None:
        reserve(graphs, member, fence, request)
    else:
        line.fences.append(fence)


def _advance_line(graphs: GraphBackend, member: Member, line: WaitLine) -> bool:
    """Reserve for waiting attempts what is free now; return True if some are left."""
    name = member.cluster.name
    while line.fences:
        first = line.fences[0]
        if first in member.placements and first not in member.nodes:
            graphs.release(name, first)
            if not graphs.place(name, first, line.request):
                return True
        line.fences.popleft()
    return False


def reserve_on_nodes(graphs: GraphBackend, member: Member, fence: str) -> None:
    """Reserve for an attempt on the nodes where it runs, as much as is free there."""
    name = member.cluster.name
    member.displaced.pop(fence, None)
    if not graphs.place(name, fence, member.placements[fence], member.nodes[fence]):
        member.displaced[fence] = None  # another attempt is counted there until it is reported elsewhere


def retry_unplaced(graphs: GraphBackend, member: Member) -> None:
    """Retry reservations that were incomplete, after a release."""
    for fence in list(itertools.islice(member.displaced, MAX_RETRIES_PER_RELEASE)):
        graphs.release(member.cluster.name, fence)
        reserve_on_nodes(graphs, member, fence)
    for key in list(itertools.islice(member.overcommitted, MAX_RETRIES_PER_RELEASE)):
        line = member.overcommitted.pop(key)
        if _advance_line(graphs, member, line):
            member.overcommitted[key] = line  # behind the lines that were not tried
