"""The default graph backend: folded graphs in memory, with exact answers.

The index (`matching/index`) answers requests of the common form (slots inside hosts) for the whole fleet.
The exact matcher answers all others cluster by cluster, after the index has excluded the clusters that
cannot fit. Answers are cached until a cluster changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rainbow_sched.graphs.backend import Summary
from rainbow_sched.graphs.cluster_state import ClusterState
from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.explanation import Explainer
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.levels import Planner
from rainbow_sched.matching.fit.placement import NOTHING_BARRED
from rainbow_sched.matching.index.answer_cache import (
    ANY_CHANGE,
    FREED,
    AnswerCache,
    CachedAnswer,
    CachedRequest,
    ValidityBound,
)
from rainbow_sched.matching.index.index import FleetIndex, SlotCounts
from rainbow_sched.matching.index.rows import PendingChange, VertexState, hosts_touched
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shapes
from rainbow_sched.model.binding import Binding, GroupHosts, NodeRules
from rainbow_sched.model.errors import AlreadyExists, NotFound
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.match import Explanation, Fit, Matches
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.versions import runs

Order: TypeAlias = npt.NDArray[np.int64] | slice  # selects clusters from a mask
MAX_SHARED_GRAPHS = 32  # recent graphs that are reused when the same graph is registered under another name

MAX_UNINDEXED_VERTICES = 4_096  # vertices of one cluster

NO_UNITS: Mapping[int, int] = MappingProxyType({})
MAX_SINGLE_MATCHES = 1  # clusters matched one by one; for more, the index answers for the whole fleet faster


class MemoryBackend:
    """Graphs in memory; `GraphBackend` documents each method."""

    def __init__(self) -> None:
        self._facts = Facts(runs)
        self._shapes = Shapes()
        self._index = FleetIndex(self._facts)
        self._answers = AnswerCache()
        self._changes = self._answers.changes
        self._ruled = 0  # clusters with node rules
        self._states: dict[str, ClusterState] = {}
        self._by_number: list[ClusterState | None] = []
        self._sorted: tuple[tuple[str, ...], Order] | None = None
        self._structures: deque[Structure] = deque(maxlen=MAX_SHARED_GRAPHS)
        self._unindexed: defaultdict[int, PendingChange] = defaultdict(PendingChange)  # by cluster

    @property
    def version(self) -> int:
        return self._changes.version

    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted(self._states))

    def put(self, cluster: str, graph: Graph) -> None:
        self._refold(cluster, self._structure(graph), ())

    def put_subsystem(self, cluster: str, subsystem: Subsystem) -> None:
        state = self._state(cluster)
        for hung in subsystem.hangs_on:
            for id in hung:
                state.number(id)
        others = [known for known in state.fold.subsystems if known.name != subsystem.name]
        self._keeping_state(state, (*others, subsystem))

    def drop_subsystem(self, cluster: str, name: str) -> None:
        state = self._state(cluster)
        others = tuple(known for known in state.fold.subsystems if known.name != name)
        if len(others) == len(state.fold.subsystems):
            raise NotFound(f"cluster {cluster!r} has no subsystem {name!r}")
        self._keeping_state(state, others)

    def remove(self, cluster: str) -> None:
        state = self._state(cluster)
        self._index.drop(state.number_in_fleet)
        self._unindexed.pop(state.number_in_fleet, None)
        self._changes.note(state.number_in_fleet, ANY_CHANGE)
        self._by_number[state.number_in_fleet] = None
        del self._states[cluster]
        self._ruled -= state.rules is not None
        self._sorted = None

    def mark(self, cluster: str, marks: Mapping[str, Mark]) -> None:
        state = self._state(cluster)
        self._changed(state, toggled=state.set_marks(marks))

    def use(self, cluster: str, used: Mapping[str, int]) -> None:
        state = self._state(cluster)
        self._changed(state, taken=state.set_report(used))

    def place(self, cluster: str, key: str, request: PreparedRequest, hosts: Sequence[str] = ()) -> bool:
        state = self._state(cluster)
        if key in state.placed:
            raise AlreadyExists(f"{key!r} is already placed on {cluster!r}; release it first")
        barred = NOTHING_BARRED if state.rules is None else state.bound(request, self._planner_of).barred
        found = self._answers.of(request).placer.place(
            state.fold,
            self._facts,
            state.taken.column(),
            state.unavailable,
            state.hints,
            barred,
            state.hosts_named(hosts) if hosts else None,
        )
        pending = self._unindexed[state.number_in_fleet]
        state.hold(key, found.taken, pending.taken)
        if found.taken:
            self._note(state, pending, hosts_touched(state.fold, found.taken), sum(found.taken.values()))
        return found.complete

    def release(self, cluster: str, key: str) -> None:
        state = self._state(cluster)
        pending = self._unindexed[state.number_in_fleet]
        if state.release(key, pending.taken):
            self._note(state, pending, FREED)

    def set_node_rules(self, cluster: str, rules: NodeRules | None) -> None:
        state = self._state(cluster)
        if rules == state.rules:
            return
        self._ruled += (rules is not None) - (state.rules is not None)
        state.set_rules(rules)
        state.version = self._changes.note(state.number_in_fleet, ANY_CHANGE)

    def binding(self, cluster: str, request: PreparedRequest) -> Binding:
        return self._state(cluster).bound(request, self._planner_of).binding

    def concrete_hosts(self, cluster: str, request: PreparedRequest, key: str = "") -> tuple[GroupHosts, ...]:
        return self._state(cluster).concrete_hosts(request, self._planner_of, key)

    def _planner_of(self, request: PreparedRequest) -> Planner:
        return self._answers.of(request).placer.planner

    def match(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> Matches:
        names, order = self._order(clusters)
        kept = self._answer(request, None if isinstance(order, slice) else order)
        if clusters is None and kept.matches is not None and kept.matches.names is names:
            return kept.matches
        unknown = np.flatnonzero(kept.unknown[order]) if kept.undecided else ()
        now, ever = np.flatnonzero(kept.now[order]), np.flatnonzero(kept.ever[order])
        found = Matches(names, now, ever, unknown, self._counter(request))
        if clusters is None:
            kept.matches = found
        return found

    def explain(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> list[Explanation]:
        matches = self.match(request, clusters)
        explainers: dict[NodeRules | None, Explainer] = {}
        self._bring_up_to_date()
        counted = self._slots(request)
        found = []
        for name in matches.names:
            state, fit = self._state(name), matches.fit(name)
            rules = state.rules_for(request)
            explainer = explainers.get(rules) or explainers.setdefault(
                rules, Explainer(request.request, self._facts, rules)
            )
            number = state.number_in_fleet
            slots = None
            if counted and fit in (Fit.NOW, Fit.NEVER) and counted.sure(number):
                now = ever = state.fold.root  # nothing but the slots depends on what is free now
                slots = int(counted.now[number])
            else:
                now, ever = state.shapes(request.request)
            view = ClusterView(state.fold, now, ever, state.shape_of)
            mixed = state.bound(request, self._planner_of).binding.mixed
            found.append(explainer.explain(name, fit, view, slots, mixed))
        return found

    def summary(self, cluster: str) -> Summary:
        return self._state(cluster).totals()

    def _counter(self, request: PreparedRequest) -> Callable[[str], tuple[int, int]]:
        """Counts slots now and ever: for all clusters at once by the tables, one by one where these cannot tell."""
        tables: SlotCounts | None = None
        fitters = self._fitters(request)
        version = -1

        def count(cluster: str) -> tuple[int, int]:
            nonlocal tables, version
            state = self._state(cluster)
            number = state.number_in_fleet
            if version != self.version:
                self._bring_up_to_date()
                tables, version = self._slots(request), self.version
            if tables is not None and tables.sure(number):
                return int(tables.now[number]), int(tables.ever[number])
            return state.slots(request.request, fitters(state))

        return count

    def _slots(self, request: PreparedRequest) -> SlotCounts | None:
        """The tables' counts, where no node rules can change them."""
        cached = self._answers.of(request)
        return None if self._ruled and cached.requires_inside else self._index.slots(cached.forms)

    def _fitters(self, request: PreparedRequest) -> Callable[[ClusterState], Fitter]:
        """The exact matcher for each cluster: one for all with the same node rules."""
        made: dict[NodeRules | None, Fitter] = {}

        def fitter(state: ClusterState) -> Fitter:
            rules = state.rules_for(request)
            return made.get(rules) or made.setdefault(rules, Fitter(request.request, self._facts, rules=rules))

        return fitter

    def _state(self, cluster: str) -> ClusterState:
        try:
            return self._states[cluster]
        except KeyError:
            raise NotFound(f"there is no cluster {cluster!r}") from None

    def _structure(self, graph: Graph) -> Structure:
        """A graph's columns; the same graph given again, under another name, is not read again."""
        for known in self._structures:
            if known.graph is graph:
                return known
        found = Structure(graph, self._shapes)
        self._structures.append(found)
        return found

    def _refold(self, cluster: str, structure: Structure, subsystems: tuple[Subsystem, ...]) -> ClusterState:
        before = self._states.get(cluster)
        number = before.number_in_fleet if before else self._new_number()
        fold = Fold(structure, subsystems, self._facts, self._shapes)
        state = ClusterState(cluster, fold, self._facts, number)
        state.rules = None if before is None else before.rules
        self._states[cluster] = state
        self._by_number[number] = state
        self._index.put(number, state.fold)
        self._unindexed.pop(number, None)
        if before is None:
            self._sorted = None
        state.version = self._changes.note(number, ANY_CHANGE)
        return state

    def _keeping_state(self, before: ClusterState, subsystems: tuple[Subsystem, ...]) -> None:
        """Fold again with other subsystems; marks, use and places stay."""
        state = self._refold(before.name, before.fold.structure, subsystems)
        state.take_over(before)
        if state.busy:
            self._changed(state, dict.fromkeys(state.taken, 0), state.unavailable)

    def _new_number(self) -> int:
        for number, state in enumerate(self._by_number):
            if state is None:
                return number
        self._by_number.append(None)
        return len(self._by_number) - 1

    def _changed(self, state: ClusterState, taken: Mapping[int, int] = NO_UNITS, toggled: Collection[int] = ()) -> None:
        if taken or toggled:
            pending = self._unindexed[state.number_in_fleet]
            pending.add(taken, toggled)
            self._note(state, pending, ANY_CHANGE)

    def _note(self, state: ClusterState, pending: PendingChange, hosts: int, units: int = 0) -> None:
        """A cluster has changed; the index learns of it when it is asked, and then of all changes together."""
        state.changed()
        if len(pending.taken) > MAX_UNINDEXED_VERTICES:
            self._bring_up_to_date()
        state.version = self._changes.note(state.number_in_fleet, hosts, units)

    def _bring_up_to_date(self) -> None:
        """Let the index know what has changed."""
        for number, pending in self._unindexed.items():
            state = self._by_number[number]
            if state is not None:
                self._index.change(number, state.fold, VertexState(state.taken, state.unavailable), pending)
        self._unindexed.clear()

    def _order(self, clusters: Collection[str] | None) -> tuple[tuple[str, ...], Order]:
        """Names in order, and the number of each."""
        if clusters is not None:
            names = tuple(sorted(set(clusters)))
            return names, np.array([self._state(name).number_in_fleet for name in names], np.int64)
        if self._sorted is None:
            names = tuple(sorted(self._states))
            numbers = [self._states[name].number_in_fleet for name in names]
            as_they_came = numbers == list(range(len(numbers)))
            self._sorted = (names, slice(len(numbers)) if as_they_came else np.array(numbers, np.int64))
        return self._sorted

    def _answer(self, request: PreparedRequest, clusters: npt.NDArray[np.int64] | None) -> CachedAnswer:
        """Return the answer for the fleet; if `clusters` are given, it may hold for those alone and is not kept."""
        cached = self._answers.of(request)
        if (answer := cached.answer) is not None:
            stale = self._answers.stale(answer)
            if stale is not None and not stale:
                return answer
            if stale and (answer.doubtful or len(stale) <= MAX_SINGLE_MATCHES):
                self._decide(request, answer, stale)
                return self._keep(cached, answer)
        self._bring_up_to_date()
        found = self._index.answer(cached.forms)
        if self._ruled and cached.requires_inside:  # the tables know nothing of mixed hosts
            found = found._replace(unsure=np.ones(len(found.ever), np.bool_), room=None)
        answer = CachedAnswer(found.now, found.ever)
        if found.room is not None:
            answer.room = ValidityBound(self._changes, found, found.room)
        if found.unsure is not None:
            answer.doubtful = True
            doubtful = np.flatnonzero(found.ever & found.unsure)
            if clusters is not None and len(clusters) < len(doubtful):
                self._decide(request, answer, np.intersect1d(doubtful, clusters).tolist())
                return answer
            self._decide(request, answer, doubtful.tolist())
        return self._keep(cached, answer)

    def _keep(self, cached: CachedRequest, answer: CachedAnswer) -> CachedAnswer:
        answer.version = self._changes.version
        cached.answer = answer
        return answer

    def _decide(self, request: PreparedRequest, kept: CachedAnswer, numbers: Iterable[int]) -> None:
        """Ask the exact matcher about some clusters."""
        fitters = self._fitters(request)
        for number in numbers:
            state = self._by_number[number]
            if state is None:
                kept.set(number, now=False, ever=False)
                continue
            now, ever = state.fits(request.request, fitters(state))
            kept.set(number, now=now, ever=ever)
