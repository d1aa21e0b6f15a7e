"""The property-graph backend, on the embedded engine, against the matcher on the same graphs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.cypher import writer
from rainbow_sched.graphs.cypher.backend import CypherBackend
from rainbow_sched.graphs.cypher.engine import Bolt, open_engine
from rainbow_sched.graphs.cypher.queries import INDEXES
from rainbow_sched.graphs.cypher.reader import subsystems as stored_subsystems
from rainbow_sched.graphs.cypher.reader import whole
from rainbow_sched.graphs.cypher.writer import field_row, sort_key
from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shapes
from rainbow_sched.model.errors import AlreadyExists, Invalid, NotFound, Unsupported
from rainbow_sched.model.graph import Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Runs, Within
from rainbow_sched.model.versions import runs, version_key
from tests.support.graph_cases import a_gpu_cluster, graphs, subsystems, words

CORES = Level(type="core", count=Count(8))


def asks(*levels: Level, **more: Any) -> Request:
    return Request(groups=(Group(levels=levels),), **more)


@pytest.fixture(scope="module")
def engine() -> Iterator[CypherBackend]:
    backend = CypherBackend()
    yield backend
    backend.close()


@pytest.fixture
def backend(engine: CypherBackend) -> CypherBackend:
    for name in engine.clusters():
        engine.remove(name)
    return engine


def fit(backend: CypherBackend, request: Request, cluster: str = "perl") -> Fit:
    return backend.match(prepare(request)).fit(cluster)


@given(graph=graphs, data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_graphs_and_subsystems_live_in_the_database_as_they_were(
    backend: CypherBackend, graph: Graph, data: st.DataObject
) -> None:
    subsystem = data.draw(subsystems(graph))
    backend.put("perl", graph)
    try:
        backend.put_subsystem("perl", subsystem)
    except Unsupported:  # numbers from 2^53 on
        reject()
    assert whole(backend._engine, "perl").graph == graph
    assert stored_subsystems(backend._engine, "perl") == [subsystem]


terms = st.one_of(
    st.builds(
        Equals, st.sampled_from(["type", "name", "v"]), st.sampled_from(["node", "gpu1", "1.10", "1.9", 2, 2.0, True])
    ),
    st.builds(Within, st.just("v"), st.sampled_from(["1.9", 2, "2.0-rc1"]), st.sampled_from([None, "1.10", 10, "3"])),
    st.builds(Runs, st.just("v"), st.sampled_from(["x86_64_v2", "x86_64_v3"])),
)
requirements = st.recursive(
    st.builds(Requirement, st.just("soft"), st.lists(terms, min_size=1, max_size=2).map(tuple)),
    lambda inner: st.builds(Requirement, st.just("soft"), st.lists(terms, max_size=1).map(tuple), st.tuples(inner)),
    max_leaves=2,
)
VALUES = ["1.9", "1.10", "2.0", "2.0-rc1", 2, 2.5, True, "true", "zen3", "x86_64_v3", ["1.9", 11]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Graph, Subsystem]:
    inside = [{"type": "core", "count": draw(st.integers(1, 3))}, {"type": "gpu", "size": 2}]
    racks = {"type": "rack", "count": 2, "with": [{"type": "node", "count": draw(st.integers(1, 2)), "with": inside}]}
    graph = from_compact({"rainbow": "graph/1", "cluster": "c", "with": [racks]})
    vertices, edges = [], []
    for k in range(draw(st.integers(1, 4))):
        vertices.append(Vertex(id=f"s{k}", type="node", name="gpu1", metadata={"v": draw(st.sampled_from(VALUES))}))
        if k and draw(st.booleans()):
            edges.append((f"s{draw(st.integers(0, k - 1))}", f"s{k}"))
        else:
            edges += [
                (host, f"s{k}") for host in draw(st.sets(st.sampled_from(list(graph.ids)), min_size=1, max_size=3))
            ]
    return graph, Subsystem.build("soft", graph.positions(), vertices, edges)


@given(found=clusters(), asked=requirements, count=st.integers(1, 4), whole=st.booleans(), many=st.integers(1, 3))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_database_judges_requirements_as_the_matcher_does(
    backend: CypherBackend, found: Any, asked: Requirement, count: int, whole: bool, many: int
) -> None:
    graph, subsystem = found
    inside = () if whole else (Level(type="core", count=Count(many)),)
    request = asks(Level(type="node", count=Count(count), requires=(asked,), inside=inside))
    backend.put("perl", graph)
    backend.put_subsystem("perl", subsystem)
    facts, shapes = Facts(runs), Shapes()
    fold = Fold(Structure(graph, shapes), [subsystem], facts, shapes)
    expected = Fitter(request, facts)
    verdict = backend.match(prepare(request)).verdict("perl")
    assert verdict.slots_ever == expected.slots(fold, fold.root)
    assert verdict.fit == (Fit.NOW if expected.fits(fold, fold.root) else Fit.NEVER)


def test_what_is_down_used_or_placed_is_out_of_now_but_not_of_ever(backend: CypherBackend) -> None:
    graph = a_gpu_cluster(nodes=1)
    node, core = graph.ids[2], graph.ids[graph.types.index("core")]
    backend.put("perl", graph)
    request = asks(CORES)
    assert fit(backend, request) is Fit.NOW
    for mark in (Mark.DOWN, Mark.DRAINED):
        backend.mark("perl", {node: mark})
        assert fit(backend, request) is Fit.LATER
        backend.mark("perl", {node: Mark.UP})
        assert fit(backend, request) is Fit.NOW
    for used in (core, node):
        backend.use("perl", {used: 1})
        assert fit(backend, request) is Fit.LATER
        backend.use("perl", {})
        assert fit(backend, request) is Fit.NOW
    assert backend.place("perl", "job", prepare(request))
    assert fit(backend, request) is Fit.LATER
    assert not backend.place("perl", "another", prepare(request))
    with pytest.raises(AlreadyExists):
        backend.place("perl", "job", prepare(request))
    backend.release("perl", "job")
    backend.release("perl", "another")
    assert fit(backend, request) is Fit.NOW


def test_an_exclusive_node_is_not_free_when_something_unasked_for_inside_it_is_used(backend: CypherBackend) -> None:
    graph = a_gpu_cluster(nodes=1)
    backend.put("perl", graph)
    request = asks(Level(type="node", exclusive=True, inside=(CORES,)))
    backend.use("perl", {graph.ids[graph.types.index("gpu")]: 1})
    assert fit(backend, request) is Fit.LATER


def test_a_failed_change_leaves_everything_as_it_was(backend: CypherBackend) -> None:
    graph = a_gpu_cluster(nodes=1)
    backend.put("perl", graph)
    backend.use("perl", {graph.ids[2]: 1})
    before = backend.version
    with pytest.raises(NotFound):
        backend.use("perl", {"no such": 1})
    with pytest.raises(Invalid):
        backend.use("perl", {graph.ids[2]: -1})
    with pytest.raises(NotFound):
        backend.put_subsystem("perl", Subsystem.build("soft", ["x"], [Vertex(id="s", type="p")], [("x", "s")]))
    assert backend.version == before
    assert fit(backend, asks(CORES)) is Fit.LATER
    assert backend.summary("perl").subsystems == ()


def test_a_subsystem_whose_replacement_is_refused_stays(backend: CypherBackend) -> None:
    graph = a_gpu_cluster(nodes=1)
    backend.put("perl", graph)
    good = Subsystem.build("soft", graph.ids, [Vertex(id="s", type="p")], [("0", "s")])
    backend.put_subsystem("perl", good)
    with pytest.raises(NotFound):
        backend.put_subsystem("perl", Subsystem.build("soft", ["x"], [Vertex(id="s", type="p")], [("x", "s")]))
    assert stored_subsystems(backend._engine, "perl") == [good]


def test_a_node_taken_whole_is_judged_by_what_is_inside_it(backend: CypherBackend) -> None:
    inside = [{"type": "gpu", "properties": ["noisy"]}]
    backend.put("perl", from_compact({"rainbow": "graph/1", "with": [{"type": "node", "with": inside}]}))
    assert fit(backend, asks(Level(type="node"))) is Fit.NOW
    assert fit(backend, asks(Level(type="node"), properties=("^noisy",))) is Fit.NEVER


def test_a_removed_cluster_leaves_nothing_behind(backend: CypherBackend) -> None:
    graph = a_gpu_cluster(nodes=1)
    backend.put("perl", graph)
    backend.put_subsystem("perl", Subsystem.build("soft", graph.ids, [Vertex(id="s", type="p")], [("0", "s")]))
    backend.place("perl", "job", prepare(asks(CORES)))
    backend.remove("perl")
    for label in ("Cluster", "Vertex", "Fact", "Job"):
        assert backend._engine.run(f"MATCH (n:{label}) RETURN count(*)") == [[0]]
    backend.put("perl", graph)
    assert fit(backend, asks(CORES)) is Fit.NOW
    for call in (backend.remove, backend.summary):
        with pytest.raises(NotFound):
            call("no such")


def test_rows_are_written_whole_across_batches(backend: CypherBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BATCH", 3)
    graph = a_gpu_cluster(nodes=2, cores=3)
    backend.put("perl", graph)
    assert whole(backend._engine, "perl").graph == graph


def test_a_file_keeps_the_clusters_for_the_next_time(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "graphs")
    backend = CypherBackend(path=path)
    backend.put("perl", a_gpu_cluster(nodes=1))
    backend.close()
    again = CypherBackend(path=path)
    assert again.clusters() == ("perl",)
    assert again.version == 1
    assert fit(again, asks(CORES)) is Fit.NOW
    again.close()


def test_what_it_cannot_keep_is_said_at_registration(backend: CypherBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = a_gpu_cluster(nodes=1)
    backend.put("perl", graph)
    exact = Vertex(id="s", type="p", metadata={"bytes": 2**53})
    with pytest.raises(Unsupported, match="2\\^53"):
        backend.put_subsystem("perl", Subsystem.build("soft", graph.ids, [exact], [("0", "s")]))
    with pytest.raises(Unsupported, match="line break"):
        backend.put("odd", Graph.build([Vertex(id="0", type="a\nb")], []))
    monkeypatch.setattr(writer, "MAX_VERTICES", 3)
    with pytest.raises(Unsupported, match="memory backend"):
        backend.put("big", graph)
    assert backend.clusters() == ("perl",)
    with pytest.raises(Unsupported, match="options path and uri"):
        open_engine({"host": "x"})


versions = st.one_of(
    words,
    st.lists(st.integers(0, 10**13), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts))),
    st.builds(
        "{}.{}-{}".format,
        st.integers(0, 20),
        st.integers(0, 20),
        st.sampled_from(["rc1", "rc10", "rc2", "é", "𐍈", "Z"]),
    ),
)


@given(one=versions, other=versions)
@settings(max_examples=300, deadline=None)
def test_texts_sort_in_the_database_as_versions_do(one: str, other: str) -> None:
    assert (sort_key(one) < sort_key(other)) == (version_key(one) < version_key(other))
    assert (sort_key(one) == sort_key(other)) == (version_key(one) == version_key(other))
    assert sort_key(one).isascii()


def test_values_that_python_holds_for_equal_are_different_rows() -> None:
    assert len({field_row("v", value)["key"] for value in (1, 1.0, True, "1", "True")}) == 5


class _Recorder:
    """Stands for the driver of a Bolt server: keeps what it is asked, refuses Neo4j's way to write an index."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def session(self) -> _Recorder:
        return self

    def begin_transaction(self) -> _Recorder:
        self.asked.append("begin")
        return self

    def commit(self) -> None:
        self.asked.append("commit")

    def close(self) -> None:
        self.asked.append("close")

    def run(self, query: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        from neo4j.exceptions import ClientError

        if "IF NOT EXISTS" in query:
            raise ClientError("not Neo4j")
        self.asked.append(query)
        return [{"n": 1, "name": values.get("name")}]


def test_by_bolt_the_same_queries_are_sent_in_one_transaction() -> None:
    driver = _Recorder()
    bolt = Bolt("bolt://host", driver=driver)
    assert driver.asked == [choices[1] for choices in INDEXES]
    driver.asked.clear()
    with bolt.transaction():
        assert bolt.run("MATCH (n) RETURN n", name="x") == [[1, "x"]]
    assert driver.asked == ["begin", "MATCH (n) RETURN n", "commit", "close"]
    driver.asked.clear()
    with pytest.raises(ValueError), bolt.transaction():
        raise ValueError
    assert driver.asked == ["begin", "close"]
