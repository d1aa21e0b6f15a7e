"""The database and the memory give the same answers, reasons and totals."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.graphs.cypher.backend import CypherBackend
from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.graph import Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Within

requirements = st.builds(
    lambda *terms: Requirement("soft", terms),
    st.sampled_from(
        [Equals("name", "lammps"), Within("version", "2"), Within("version", None, 10), Equals("on", True)]
    ),
)


def _level(inside: st.SearchStrategy[Level] | None) -> st.SearchStrategy[Level]:
    return st.builds(
        Level,
        type=st.sampled_from(["node", "rack", "socket"] if inside is not None else ["core", "gpu", "node", "rack"]),
        count=st.builds(Count, st.integers(1, 4)),
        shared=st.booleans() if inside is not None else st.just(False),
        exclusive=st.booleans(),
        requires=st.lists(requirements, max_size=1).map(tuple),
        inside=st.lists(inside, min_size=1, max_size=2).map(tuple) if inside is not None else st.just(()),
    )


requests = st.builds(
    Request,
    groups=st.lists(st.recursive(_level(None), _level, max_leaves=3), min_size=1, max_size=2).map(
        lambda levels: (Group(levels=tuple(levels)),)
    ),
    hosts=st.sampled_from([(), (), ("node0",)]),
    not_hosts=st.sampled_from([(), (), ("node1",)]),
    properties=st.sampled_from([(), (), ("fast",), ("^fast",)]),
)


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    """A small cluster with software on it, some of it down, used or placed."""
    inside = [{"type": "core", "count": draw(st.integers(1, 3))}, {"type": "gpu", "size": 2}]
    kinds = [{"type": "node", "with": inside, "properties": held} for held in (["fast"], [])]
    graph = from_compact({"rainbow": "graph/1", "cluster": "c", "with": [{"type": "rack", "count": 2, "with": kinds}]})
    ids = st.sampled_from(list(graph.ids))
    values = st.sampled_from(
        [{"version": "2.0"}, {"version": 3}, {"version": "1.10", "on": True}, {"version": [1, "12"]}]
    )
    vertices = [Vertex(id=f"s{k}", type="package", name="lammps", metadata=draw(values)) for k in range(3)]
    edges = [(draw(ids), "s0"), (draw(ids), "s1"), (draw(st.sampled_from(["s0", graph.ids[1]])), "s2")]
    return {
        "graph": graph,
        "subsystem": Subsystem.build("soft", graph.positions(), vertices, edges),
        "marks": draw(st.dictionaries(ids, st.sampled_from(list(Mark)), max_size=2)),
        "used": draw(st.dictionaries(ids, st.integers(0, 2), max_size=2)),
        "placed": draw(st.lists(requests, max_size=1)),
    }


def _answers(backend: GraphBackend, at: dict[str, Any], request: Request) -> list[object]:
    graph: Graph = at["graph"]
    backend.put("beside", graph)  # what is said of one cluster must not be heard of the other
    backend.put("c", graph)
    backend.put_subsystem("c", at["subsystem"])
    backend.mark("c", at["marks"])
    backend.use("c", at["used"])
    complete = [backend.place("c", "job", prepare(placed)) for placed in at["placed"]]
    totals = backend.summary("c")
    found = [explanation.to_json() for explanation in backend.explain(prepare(request))]
    return [
        complete,
        totals.totals,
        totals.subsystems,
        [verdict.to_json() for verdict in backend.match(prepare(request))],
        found,
    ]


DATABASE = CypherBackend()


@given(at=situations(), request=requests)
@settings(max_examples=10, deadline=None)
def test_both_backends_give_the_same_answers_reasons_and_totals(at: dict[str, Any], request: Request) -> None:
    assert _answers(DATABASE, at, request) == _answers(MemoryBackend(), at, request)
