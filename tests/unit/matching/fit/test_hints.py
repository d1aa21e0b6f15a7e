"""Hints save work and change nothing: the same vertices are taken as by looking at every host."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.fit.levels import Planner
from rainbow_sched.matching.fit.placement import place
from rainbow_sched.model.graph import Mark
from tests.support.service import a_graph, a_request

steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(1, 3), st.integers(1, 4)),
        st.tuples(st.just("release"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("mark"), st.integers(0, 5), st.integers(0, 1)),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(steps)
def test_placing_with_hints_takes_what_placing_without_them_would(ops: list[tuple[str, int, int]]) -> None:
    graph = read(a_graph(nodes=6, cores=4))
    nodes = [graph.ids[i] for i, type in enumerate(graph.types) if type == "node"]
    backend = MemoryBackend()
    backend.put("c", graph)
    for number, (kind, a, b) in enumerate(ops):
        state = backend._states["c"]  # the vertices themselves are not shown outside
        if kind == "place":
            request = a_request(nodes=a, cores=b)
            plan = Planner(request).plan(state.fold.structure.units)
            expected = place(state.fold, plan, backend._facts, state.taken.column(), state.unavailable)
            assert backend.place("c", f"k{number}", prepare(request)) == expected.complete
            assert state.placed[f"k{number}"] == expected.taken
        elif kind == "release":
            backend.release("c", f"k{a}")
        else:
            backend.mark("c", {nodes[a]: Mark.DOWN if b else Mark.UP})


def test_a_host_that_is_up_again_is_tried_first() -> None:
    graph = read(a_graph(nodes=3, cores=4))
    first = graph.types.index("node")
    backend = MemoryBackend()
    backend.put("c", graph)
    backend.mark("c", {graph.ids[first]: Mark.DOWN})
    request = a_request(nodes=1, cores=1)
    backend.place("c", "elsewhere", prepare(request))
    backend.mark("c", {graph.ids[first]: Mark.UP})
    backend.place("c", "there", prepare(request))
    (core,) = backend._states["c"].placed["there"]
    assert graph.parents[core] == first
