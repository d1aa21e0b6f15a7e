"""Only checked graphs exist: what is no tree is refused with the vertex named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH, Graph, Subsystem, Vertex


def v(id: str, type: str = "node", size: int = 1) -> Vertex:
    return Vertex(id=id, type=type, size=size)


@given(st.lists(st.integers(0, 10_000), max_size=40), st.randoms(use_true_random=False))
def test_any_tree_in_any_order_comes_out_with_parents_first(choices: list[int], rng: object) -> None:
    edges = [(f"v{choice % (i + 1)}", f"v{i + 1}") for i, choice in enumerate(choices)]
    vertices = [v(f"v{i}") for i in range(len(choices) + 1)]
    rng.shuffle(vertices)  # type: ignore[attr-defined]
    rng.shuffle(edges)  # type: ignore[attr-defined]
    depth: dict[str, int] = {"v0": 1}
    for parent, child in sorted(edges, key=lambda edge: int(edge[1][1:])):
        depth[child] = depth[parent] + 1
    if max(depth.values()) > MAX_GRAPH_DEPTH:
        with pytest.raises(TooLarge):
            Graph.build(vertices, edges)
        return
    graph = Graph.build(vertices, edges)
    assert sorted(graph.ids) == sorted(vertex.id for vertex in vertices)
    assert graph.ids[0] == "v0"
    found = {(graph.ids[parent], graph.ids[i]) for i, parent in enumerate(graph.parents) if parent >= 0}
    assert found == set(edges)
    assert all(parent < i for i, parent in enumerate(graph.parents))


@pytest.mark.parametrize(
    ("vertices", "edges", "named"),
    [
        ([], [], "at least one vertex"),
        ([v("a"), v("a")], [], "'a'"),
        ([v("a"), v("b")], [("a", "c")], "'c'"),
        ([v("a"), v("b")], [], "'b'"),
        ([v("a"), v("b"), v("c")], [("a", "c"), ("b", "c")], "'c'"),
        ([v("a"), v("b")], [("a", "b"), ("b", "a")], "no root"),
        ([v("a"), v("b"), v("c")], [("b", "c"), ("c", "b")], "'b'"),
        ([v("a")], [("a", "a")], "'a'"),
        ([v("a", size=0)], [], "'a'"),
        ([v("a", type="")], [], "'a'"),
        ([v("")], [], "id"),
    ],
)
def test_what_is_no_tree_is_refused(vertices: list[Vertex], edges: list[tuple[str, str]], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        Graph.build(vertices, edges)


@pytest.mark.parametrize("size", [-1, 2**54, 1.5, "4", True, None])
def test_an_absurd_size_is_refused(size: object) -> None:
    with pytest.raises(Invalid, match="'a'"):
        Graph.build([Vertex(id="a", type="node", size=size)], [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vertices", "edges", "named"),
    [
        ([], [], "no vertices"),
        ([v("s0")], [], "'s0'"),
        ([v("s0")], [("x", "s0")], "'x'"),
        ([v("n0")], [("0", "n0")], "'n0'"),
        ([v("s0"), v("s1")], [("s0", "s1"), ("s1", "s0")], "cycle"),
        ([v("s0"), v("s1"), v("s2")], [("0", "s0"), ("0", "s1"), ("s0", "s2"), ("s1", "s2")], "'s2'"),
        ([v("s0")], [("0", "zz")], "'zz'"),
    ],
)
def test_a_subsystem_that_hangs_in_the_air_is_refused(
    vertices: list[Vertex], edges: list[tuple[str, str]], named: str
) -> None:
    with pytest.raises(Invalid, match=named):
        Subsystem.build("io", ["0", "n0"], vertices, edges)


def test_a_vertex_of_a_subsystem_may_hang_on_many_nodes() -> None:
    made = Subsystem.build("io", ["0", "n0", "n1"], [v("s0")], [("n0", "s0"), ("n1", "s0"), ("n0", "s0")])
    assert made.hangs_on == (("n0", "n1"),)
