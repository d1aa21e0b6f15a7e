"""A graph backend that stores graphs in a property-graph database.

The database holds the vertices, subsystems, marks, used units and placed jobs. It selects the
vertices that a request can use and evaluates the requirements; the slots are counted here, by the same
functions as in the memory backend. Options: `path` of a file for the embedded engine (default: in
memory), or the `uri` of a Neo4j or Memgraph server.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rainbow_sched.graphs.backend import Summary
from rainbow_sched.graphs.cluster_state import MAX_CACHED_BINDINGS, ClusterState
from rainbow_sched.graphs.cypher import queries, reader, writer
from rainbow_sched.graphs.cypher.engine import open_engine
from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.explanation import Explainer
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.levels import Planner
from rainbow_sched.matching.fit.placement import place
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shapes
from rainbow_sched.model.binding import UNBOUND, Binding, GroupHosts, NodeRules
from rainbow_sched.model.errors import AlreadyExists, NotFound
from rainbow_sched.model.graph import Graph, Mark, Subsystem
from rainbow_sched.model.match import Explanation, Matches
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.versions import runs

_CLUSTERS_PER_QUERY = 50


class CypherBackend:
    """Graphs in a database; `GraphBackend` documents each method."""

    def __init__(self, **options: str) -> None:
        """Open the database and read the versions of its clusters."""
        self._engine = open_engine(options)
        self._lock = threading.RLock()  # one connection, one query at a time
        self._versions: dict[str, int] = {row[0]: row[1] for row in self._engine.run(queries.CLUSTERS)}
        self._version = max(self._versions.values(), default=0)
        self._rules: dict[str, NodeRules] = {}  # set again after each start
        self._bindings: dict[str, OrderedDict[str, Binding]] = {}  # by cluster, until its graphs or rules change

    @property
    def version(self) -> int:
        return self._version

    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted(self._versions))

    def put(self, cluster: str, graph: Graph) -> None:
        writer.check_graph(graph)
        self._bindings.pop(cluster, None)
        with self._change(cluster, new=True):
            self._forget(cluster)
            writer.write_graph(self._engine, cluster, graph)

    def put_subsystem(self, cluster: str, subsystem: Subsystem) -> None:
        self._bindings.pop(cluster, None)
        with self._change(cluster):
            self._engine.run(queries.FORGET_SUBSYSTEM, cluster=cluster, subsystem=subsystem.name)
            writer.write_subsystem(self._engine, cluster, subsystem)

    def drop_subsystem(self, cluster: str, name: str) -> None:
        self._bindings.pop(cluster, None)
        with self._change(cluster):
            if not self._engine.run(queries.ALL_FACTS, clusters=[cluster], subsystem=name):
                raise NotFound(f"cluster {cluster!r} has no subsystem {name!r}")
            self._engine.run(queries.FORGET_SUBSYSTEM, cluster=cluster, subsystem=name)

    def remove(self, cluster: str) -> None:
        self._known(cluster)
        self._bindings.pop(cluster, None)
        with self._lock:
            with self._engine.transaction():
                self._forget(cluster)
                self._engine.run(queries.FORGET_CLUSTER, cluster=cluster)
            self._version += 1
            del self._versions[cluster]
            self._rules.pop(cluster, None)

    def mark(self, cluster: str, marks: Mapping[str, Mark]) -> None:
        with self._change(cluster):
            writer.write_marks(self._engine, cluster, marks)

    def use(self, cluster: str, used: Mapping[str, int]) -> None:
        with self._change(cluster):
            writer.write_use(self._engine, cluster, used)

    def place(self, cluster: str, key: str, request: PreparedRequest, hosts: Sequence[str] = ()) -> bool:
        with self._change(cluster):
            state = self._whole(cluster)
            if key in state.placed:
                raise AlreadyExists(f"{key!r} is already placed on {cluster!r}; release it first")
            found = place(
                state.fold,
                _planner_of(request).plan(state.fold.structure.units),
                state.facts,
                state.taken.column(),
                state.unavailable,
                None,
                state.bound(request, _planner_of).barred,
                state.hosts_named(hosts),
            )
            ids = state.fold.graph.ids
            writer.write_job(self._engine, cluster, key, {ids[i]: units for i, units in found.taken.items()})
        return found.complete

    def release(self, cluster: str, key: str) -> None:
        self._known(cluster)
        with self._lock:
            if [cluster, key] in self._engine.run(queries.JOBS, clusters=[cluster]):
                with self._change(cluster):
                    self._engine.run(queries.FORGET_JOB, key=writer.key_of(cluster, key))

    def set_node_rules(self, cluster: str, rules: NodeRules | None) -> None:
        self._known(cluster)
        if rules == self._rules.get(cluster):
            return
        self._bindings.pop(cluster, None)
        with self._change(cluster):
            if rules is None:
                del self._rules[cluster]
            else:
                self._rules[cluster] = rules

    def binding(self, cluster: str, request: PreparedRequest) -> Binding:
        self._known(cluster)
        if cluster not in self._rules or not request.may_bind:
            return UNBOUND
        kept = self._bindings.setdefault(cluster, OrderedDict())
        known = kept.get(request.match_key)
        if known is None:
            bound = self._whole(cluster).bound(request, _planner_of)
            known = kept[request.match_key] = bound.binding
            if len(kept) > MAX_CACHED_BINDINGS:
                kept.popitem(last=False)
        return known

    def concrete_hosts(self, cluster: str, request: PreparedRequest, key: str = "") -> tuple[GroupHosts, ...]:
        return self._whole(cluster).concrete_hosts(request, _planner_of, key)

    def _ready(self, names: tuple[str, ...], prepared: PreparedRequest) -> Iterator[tuple[ClusterState, Fitter]]:
        """Iterate over the clusters in order, each with its matcher.

        The database evaluates the requirements. A cluster with node rules is read completely, as the vertices that
        do not meet a requirement count, too.
        """
        request = prepared.request
        ruled = self._rules.keys() if prepared.may_bind else ()
        facts, shapes = Facts(runs), Shapes()
        judge = reader.RequirementEvaluator(self._engine, request)
        fitter = Fitter(judge.request, facts)
        for first in range(0, len(names), _CLUSTERS_PER_QUERY):
            some = names[first : first + _CLUSTERS_PER_QUERY]
            plain = [name for name in some if name not in ruled]
            with self._lock:
                found = reader.usable(self._engine, plain, request) if plain else {}
                verdicts = judge.verdicts(found)
            for name in some:
                if name in found:
                    yield _state(name, found[name], verdicts[name], facts, shapes), fitter
                else:
                    state = self._whole(name)
                    yield state, Fitter(request, state.facts, rules=state.rules)

    def match(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> Matches:
        names = self.clusters() if clusters is None else tuple(sorted(set(clusters)))
        for name in names:
            self._known(name)
        seen: dict[str, tuple[ClusterState, Fitter]] = {}
        answers = []
        for state, fitter in self._ready(names, request):
            seen[state.name] = (state, fitter)
            answers.append(state.fits(request.request, fitter))
        now = [at for at, (fits, _) in enumerate(answers) if fits]
        ever = [at for at, (_, can) in enumerate(answers) if can]
        unknown = [at for at, answer in enumerate(answers) if None in answer]

        def count(name: str) -> tuple[int, int]:
            state, fitter = seen[name]
            return state.slots(request.request, fitter)

        return Matches(names, now, ever, unknown, count)

    def explain(self, request: PreparedRequest, clusters: Collection[str] | None = None) -> list[Explanation]:
        found = []
        matches = self.match(request, clusters)
        for name in matches.names:
            state = self._whole(name)
            explainer = Explainer(request.request, state.facts, state.rules_for(request))
            now, ever = state.shapes(request.request)
            view = ClusterView(state.fold, now, ever, state.shape_of)
            mixed = state.bound(request, _planner_of).binding.mixed
            found.append(explainer.explain(name, matches.fit(name), view, mixed=mixed))
        return found

    def summary(self, cluster: str) -> Summary:
        state = self._whole(cluster)
        state.version = self._versions[cluster]
        return state.totals()

    def close(self) -> None:
        self._engine.close()

    def _known(self, cluster: str) -> None:
        if cluster not in self._versions:
            raise NotFound(f"there is no cluster {cluster!r}")

    @contextmanager
    def _change(self, cluster: str, *, new: bool = False) -> Iterator[None]:
        """Run one change of a cluster in a transaction and increase the version."""
        if not new:
            self._known(cluster)
        with self._lock:
            with self._engine.transaction():
                yield
                self._engine.run(queries.TOUCH, cluster=cluster, version=self._version + 1)
            self._version += 1
            self._versions[cluster] = self._version

    def _forget(self, cluster: str) -> None:
        for query in (queries.FORGET_JOBS, queries.FORGET_FACTS, queries.FORGET_VERTICES):
            self._engine.run(query, cluster=cluster)

    def _whole(self, cluster: str) -> ClusterState:
        """Read a cluster with everything about it, and with facts of its own."""
        self._known(cluster)
        with self._lock:
            rows = reader.whole(self._engine, cluster)
            subsystems = reader.subsystems(self._engine, cluster)
        state = _state(cluster, rows, subsystems, Facts(runs), Shapes())
        state.rules = self._rules.get(cluster)
        return state


def _state(
    name: str, rows: reader.GraphRows, subsystems: list[Subsystem], facts: Facts, shapes: Shapes
) -> ClusterState:
    """Build the state of a cluster from the database's rows."""
    state = ClusterState(name, Fold(Structure(rows.graph, shapes), subsystems, facts, shapes), facts)
    ids = rows.graph.ids
    state.set_marks({ids[i]: Mark.DOWN for i in rows.down})
    state.set_report({ids[i]: units for i, units in rows.used.items()})
    for key, taken in rows.placed.items():
        state.hold(key, dict(taken), {})
    return state


def _planner_of(request: PreparedRequest) -> Planner:
    return Planner(request.request)
