"""The fleet in memory: a cache of the stored clusters and graphs, loaded at start, changed only after commits."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.model.bid import TrackRecord
from rainbow_sched.model.candidate import (
    NOTHING_PLACED,
    Candidate,
    ClusterReport,
    PlacedSinceReport,
)
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.cluster_rules import ClusterRules
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.match import Fit, Matches
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.candidate_set import CandidateSet, FleetPartCache

MAX_CANDIDATE_SETS = 256  # bounds the memory of the cache
MAX_RETRIES_PER_RELEASE = 64  # incomplete reservations; bounds the time of one release
_OPEN = frozenset({Standing.ACTIVE, Standing.DEGRADED})


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


class Fleet:
    """All registered clusters by name, and the graph backend with their graphs."""

    def __init__(self, graphs: GraphBackend) -> None:
        self.graphs = graphs
        self.version = 0  # grows with every change; recorded in decisions
        self.rules: dict[str, ClusterRules] = {}  # of clusters that have rules
        self.without_binding: set[str] = set()  # clusters whose agents cannot bind jobs to hosts
        self._members: dict[str, Member] = {}
        self._closed: dict[str, str] | None = None  # until a standing changes
        self.fleet_parts = FleetPartCache()
        self._candidate_sets: dict[Matches, CandidateSet] = {}  # until a change
        self._cached_candidates: dict[Fit, dict[str, Candidate]] = {fit: {} for fit in Fit}  # until a cluster changes

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._members)

    def member(self, name: str) -> Member:
        """Return one cluster; raise NotFound."""
        member = self._members.get(name)
        if member is None:
            raise NotFound(f"there is no cluster {name!r}; `rainbow clusters` lists those you may see")
        return member

    def get(self, name: str) -> Member | None:
        return self._members.get(name)

    def candidate(self, name: str, fit: Fit, **more: Any) -> Candidate:
        """Return one cluster as a decision sees it."""
        member = self._members[name]
        report = member.report
        if report is None:
            cluster = member.cluster
            record = TrackRecord.from_mapping(cluster.record)
            report = member.report = ClusterReport(name=name, state=cluster.state, at=cluster.state_at, record=record)
        placed = member.placed_since if report.state else NOTHING_PLACED
        return Candidate.of(report, fit, placed=placed, **more)

    def candidates(self, matches: Matches) -> CandidateSet:
        """Return the clusters that fit, now or later; the same object until one of them changes."""
        known = self._candidate_sets.get(matches)
        if known is None:
            if len(self._candidate_sets) >= MAX_CANDIDATE_SETS:
                self._candidate_sets.clear()
            known = self._candidate_sets[matches] = CandidateSet(self._candidates(matches), self.fleet_parts)
        return known

    def _candidates(self, matches: Matches) -> list[Candidate]:
        if matches.all_now:
            shown = self._cached_candidates[Fit.NOW]
            if len(shown) < len(self._members):
                shown.update((name, self.candidate(name, Fit.NOW)) for name in self._members.keys() - shown.keys())
            return [shown[name] for name in matches.ever]
        found = []
        for name in matches.ever:
            fit = matches.fit(name)
            candidate = self._cached_candidates[fit].get(name)
            if candidate is None:
                candidate = self._cached_candidates[fit][name] = self.candidate(name, fit)
            found.append(candidate)
        return found

    def live_jobs_of(self, name: str, owner: str) -> int:
        """Return how many live jobs an owner has on a cluster."""
        return self._members[name].jobs_by_owner[owner]

    def cores_per_node(self, name: str) -> float:
        """Return the average number of cores per node of a cluster; computed once per graph."""
        member = self._members[name]
        if member.cores_per_node is None:
            totals = {} if member.broken else self.graphs.summary(name).totals
            cores, nodes = (totals[type].size if type in totals else 0 for type in ("core", "node"))
            member.cores_per_node = max(1.0, cores / max(1, nodes))
        return member.cores_per_node

    def closed(self) -> Mapping[str, str]:
        """Return the clusters that take no work now, with the reason."""
        if self._closed is not None:
            return self._closed
        reasons: dict[str, str] = {}
        for name, member in self._members.items():
            if member.broken:
                reasons[name] = f"its stored graph is damaged: {member.broken}"
            elif member.cluster.standing not in _OPEN:
                why = f" ({member.cluster.drain_reason})" if member.cluster.drain_reason else ""
                reasons[name] = f"is {member.cluster.standing.value}{why}"
            elif member.cluster.standing is Standing.DEGRADED and member.placements:
                reasons[name] = f"is degraded ({member.cluster.drain_reason})"
        self._closed = reasons
        return reasons

    def add(self, cluster: Cluster, graph: Graph, subsystems: Iterable[Subsystem]) -> None:
        """Add a cluster, or replace its graph."""
        kept = self._members.get(cluster.name)
        self.graphs.put(cluster.name, graph)
        member = Member(cluster) if kept is None else kept
        member.cluster, member.broken, member.cores_per_node = cluster, "", None
        member.subsystems = []
        for subsystem in subsystems:
            self.graphs.put_subsystem(cluster.name, subsystem)
            member.subsystems.append(subsystem.name)
        self._members[cluster.name] = member
        self._load_marks(cluster, graph)
        self._take_node_rules(cluster)
        member.overcommitted, member.displaced = {}, {}
        for fence, request in member.placements.items():
            if fence in member.nodes:
                self._reserve_on_nodes(member, fence)
            else:
                self._reserve_next(member, fence, request)
        self._standing_changed(member)

    def add_broken(self, cluster: Cluster, reason: str) -> None:
        """Add a cluster whose graph is damaged: it is listed, but takes no work."""
        with suppress(NotFound):
            self.graphs.remove(cluster.name)
        member = self._members[cluster.name] = Member(cluster, broken=reason)
        self._standing_changed(member)

    def put_subsystem(self, name: str, subsystem: Subsystem) -> None:
        """Add or replace a subsystem; on a damaged cluster it is used once the cluster's graph is replaced."""
        member = self.member(name)
        if not member.broken:
            self.graphs.put_subsystem(name, subsystem)
        if subsystem.name not in member.subsystems:
            member.subsystems.append(subsystem.name)
        self.version += 1

    def drop_subsystem(self, name: str, subsystem: str) -> None:
        member = self.member(name)
        if not member.broken:
            self.graphs.drop_subsystem(name, subsystem)
        member.subsystems = [kept for kept in member.subsystems if kept != subsystem]
        self.version += 1

    def update(self, cluster: Cluster) -> None:
        """Replace a cluster's row; ignore one that is older than the known row."""
        member = self._members.get(cluster.name)
        if member is None or (cluster.id, cluster.version) < (member.cluster.id, member.cluster.version):
            return
        before, member.cluster = member.cluster, cluster
        if cluster.state_at != before.state_at:
            member.placed_since, member.counted = NOTHING_PLACED, {}
        if not member.broken and (cluster.marks != before.marks or cluster.used != before.used):
            gone = {vertex: Mark.UP for vertex in before.marks if vertex not in cluster.marks}
            self.graphs.mark(cluster.name, gone | {v: Mark(m) for v, m in cluster.marks.items()})
            self.graphs.use(cluster.name, cluster.used)
        if not member.broken and cluster.node_rules != before.node_rules:
            self._take_node_rules(cluster)
        self._standing_changed(member)

    def _take_node_rules(self, cluster: Cluster) -> None:
        """Pass the capabilities of the cluster's manager to matching."""
        self.graphs.set_node_rules(cluster.name, cluster.node_rules)
        if cluster.node_rules is None or cluster.node_rules.hosts:
            self.without_binding.discard(cluster.name)
        else:
            self.without_binding.add(cluster.name)

    def remove(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            if not member.broken:
                self.graphs.remove(name)
            self.without_binding.discard(name)
            self._standing_changed(member)

    def place(self, name: str, fence: str, request: PreparedRequest, owner: str) -> None:
        """Reserve resources for an attempt that was given to a cluster."""
        member = self._members.get(name)
        if member is None or member.broken:
            return
        self._reserve(member, fence, request)
        self._count(member, fence, request, owner, reported=False)
        self._placements_changed(member)

    def _count(self, member: Member, fence: str, request: PreparedRequest, owner: str, *, reported: bool) -> None:
        """Count an attempt as placed; `reported`: the cluster's state includes it."""
        member.placements[fence] = request
        if request.may_bind:
            member.bindable[fence] = request
        if fence not in member.owners:
            member.owners[fence] = owner
            member.jobs_by_owner[owner] += 1
        if not reported:
            size, since = request.size, member.placed_since
            member.counted[fence] = size
            member.placed_since = PlacedSinceReport(since.jobs + 1, since.nodes + size.nodes, since.cores + size.cores)

    def place_all(self, name: str, attempts: Iterable[tuple[str, PreparedRequest, str, bool, tuple[str, ...]]]) -> None:
        """Reserve for many attempts: (fence, request, owner, whether the cluster's state includes it, nodes).

        Nothing is released in between, so after one did not fit, equal ones are not tried.
        """
        member = self._members.get(name)
        if member is None or member.broken:
            return
        for fence, request, owner, reported, there in attempts:
            self._count(member, fence, request, owner, reported=reported)
            if there:
                member.nodes[fence] = there
                self._reserve_on_nodes(member, fence)
            else:
                self._reserve_next(member, fence, request)
        self._placements_changed(member)

    def release(self, name: str, fence: str) -> None:
        """Release the resources of an attempt that ended or was never stored."""
        member = self._members.get(name)
        if member is None or member.broken:
            return
        self.graphs.release(name, fence)
        member.placements.pop(fence, None)
        member.bindable.pop(fence, None)
        member.nodes.pop(fence, None)
        member.displaced.pop(fence, None)
        owner = member.owners.pop(fence, None)
        if owner is not None:
            member.jobs_by_owner[owner] -= 1
            if not member.jobs_by_owner[owner]:
                del member.jobs_by_owner[owner]
        size = member.counted.pop(fence, None)
        if size is not None:  # the cluster's state does not include it
            since = member.placed_since
            member.placed_since = PlacedSinceReport(
                since.jobs - size.jobs, since.nodes - size.nodes, since.cores - size.cores
            )
        self._retry_unplaced(member)
        self._placements_changed(member)

    def move_to_nodes(self, name: str, fence: str, nodes: tuple[str, ...]) -> None:
        """Move an attempt's reservation to the nodes that its agent reports."""
        member = self._members.get(name)
        if member is None or member.broken or fence not in member.placements or member.nodes.get(fence) == nodes:
            return
        request = member.placements[fence]
        line = member.overcommitted.get(request.text)
        if line is not None and fence in line.fences:
            line.fences.remove(fence)
        member.nodes[fence] = nodes
        self.graphs.release(name, fence)
        self._reserve_on_nodes(member, fence)
        self._retry_unplaced(member)
        self._placements_changed(member)

    def _reserve(self, member: Member, fence: str, request: PreparedRequest) -> None:
        name = member.cluster.name
        if self.graphs.place(name, fence, request):
            return
        line = member.overcommitted.setdefault(request.text, WaitLine(request))
        if line.fences:  # the first in line reserves what there is
            self.graphs.release(name, fence)
        line.fences.append(fence)

    def _reserve_next(self, member: Member, fence: str, request: PreparedRequest) -> None:
        """Reserve for an attempt when nothing was released since an equal one was tried."""
        line = member.overcommitted.get(request.text)
        if line is None:
            self._reserve(member, fence, request)
        else:
            line.fences.append(fence)

    def _reserve_on_nodes(self, member: Member, fence: str) -> None:
        """Reserve for an attempt on the nodes where it runs, as much as is free there."""
        member.displaced.pop(fence, None)
        if not self.graphs.place(member.cluster.name, fence, member.placements[fence], member.nodes[fence]):
            member.displaced[fence] = None  # another attempt is counted there until it is reported elsewhere

    def _retry_unplaced(self, member: Member) -> None:
        """Retry reservations that were incomplete, after a release."""
        for fence in list(itertools.islice(member.displaced, MAX_RETRIES_PER_RELEASE)):
            self.graphs.release(member.cluster.name, fence)
            self._reserve_on_nodes(member, fence)
        for key in list(itertools.islice(member.overcommitted, MAX_RETRIES_PER_RELEASE)):
            line = member.overcommitted.pop(key)
            if self._advance_line(member, line):
                member.overcommitted[key] = line  # behind the lines that were not tried

    def _advance_line(self, member: Member, line: WaitLine) -> bool:
        """Reserve for waiting attempts what is free now; return True if some are left."""
        name = member.cluster.name
        while line.fences:
            first = line.fences[0]
            if first in member.placements and first not in member.nodes:
                self.graphs.release(name, first)
                if not self.graphs.place(name, first, line.request):
                    return True
            line.fences.popleft()
        return False

    def record_outcome(self, name: str, good: bool) -> None:
        """Record whether a cluster's last attempt succeeded, for its circuit breaker."""
        member = self._members.get(name)
        if member is not None:
            member.failures_in_row = 0 if good else member.failures_in_row + 1

    def _standing_changed(self, member: Member) -> None:
        member.report, self._closed = None, None
        cluster = member.cluster
        if cluster.rules and cluster.name in self._members:
            self.rules[cluster.name] = ClusterRules.of(cluster.rules)
        else:
            self.rules.pop(cluster.name, None)
        self._invalidate_candidates(cluster.name)
        self.version += 1

    def _invalidate_candidates(self, name: str) -> None:
        self._candidate_sets.clear()
        for shown in self._cached_candidates.values():
            shown.pop(name, None)

    def _placements_changed(self, member: Member) -> None:
        if member.cluster.state:  # without a reported state, decisions see no load
            self._invalidate_candidates(member.cluster.name)
        if member.cluster.standing is Standing.DEGRADED:
            self._closed = None  # one job at a time
        self.version += 1

    def _load_marks(self, cluster: Cluster, graph: Graph) -> None:
        """Apply marks and usage, for vertices that the graph still has."""
        known = graph.positions() if cluster.marks or cluster.used else {}
        if cluster.marks:
            self.graphs.mark(cluster.name, {v: Mark(m) for v, m in cluster.marks.items() if v in known})
        if cluster.used:
            self.graphs.use(cluster.name, {v: units for v, units in cluster.used.items() if v in known})
