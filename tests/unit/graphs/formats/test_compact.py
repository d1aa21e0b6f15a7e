"""The compact form, its lists of names, and folding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.formats.compact import from_compact, from_compact_subsystem
from rainbow_sched.graphs.formats.jgf.reader import read_graph
from rainbow_sched.graphs.formats.jgf.values import GraphLimits
from rainbow_sched.graphs.formats.jgf.writer import to_jgf
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse, expand, parse_idset
from tests.support.compact_writer import to_compact, to_compact_subsystem
from tests.support.graph_cases import a_gpu_cluster, graphs, names, subsystems, words


def compact(*entries: dict[str, Any], **more: Any) -> Graph:
    return from_compact({"rainbow": "graph/1", "cluster": "c", "with": list(entries), **more})


def test_shape_times_count_expands_to_every_vertex() -> None:
    core = {"type": "core", "count": 2}
    graph = compact(
        {"type": "rack", "count": 2, "with": [{"type": "node", "count": 2, "name": "n[0-3]", "with": [core]}]}
    )
    assert graph.names == ["c", "rack0", "rack1", "n0", "n1", "n2", "n3", *["core0", "core1"] * 4]
    assert graph.ids == ["0", "1", "8", "2", "5", "9", "12", "3", "4", "6", "7", "10", "11", "13", "14"]
    assert list(graph.parents) == [-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


def test_nodes_count_through_the_cluster_and_the_rest_within_its_parent() -> None:
    graph = compact({"type": "rack", "count": 2, "with": [{"type": "node", "with": [{"type": "socket"}]}]})
    assert graph.names == ["c", "rack0", "rack1", "node0", "node1", "socket0", "socket0"]


def test_a_shorter_list_of_names_begins_again() -> None:
    graph = compact({"type": "node", "count": 2, "with": [{"type": "socket", "count": 2, "name": "s[0-1]"}]})
    assert graph.names[3:] == ["s0", "s1", "s0", "s1"]


@given(graph=graphs)
@settings(max_examples=40, deadline=None)
def test_any_graph_folds_and_unfolds_to_itself(graph: Graph) -> None:
    document = json.loads(json.dumps(to_compact(graph)))
    assert from_compact(document) == graph


def test_equal_nodes_fold_into_one_entry_with_names_in_short() -> None:
    graph = read_graph(to_jgf(a_gpu_cluster(nodes=64, cores=64)))
    document = to_compact(graph)
    assert len(json.dumps(document)) < 400
    assert '"n[0-63]"' in json.dumps(document)
    assert from_compact(document) == graph


@pytest.mark.parametrize("differs", ["type", "size", "unit", "metadata", "properties", "with"])
def test_neighbours_that_differ_in_anything_do_not_fold(differs: str) -> None:
    other: dict[str, Any] = {
        "type": "gpu",
        "size": 2,
        "unit": "GB",
        "metadata": {"model": "a100"},
        "properties": ["fast"],
        "with": [{"type": "core"}],
    }
    graph = compact({"type": "node"}, {"type": "node", differs: other[differs]})
    document = to_compact(graph)
    assert len(document["with"]) == 2
    assert from_compact(document) == graph


@pytest.mark.parametrize(
    ("entry", "where", "says"),
    [
        ({"type": "node", "count": 0}, "with[0]", "count"),
        ({"type": "node", "count": "4"}, "with[0]", "count"),
        ({"type": "node", "cuont": 4}, "with[0]", "cuont"),
        ({"count": 4}, "with[0]", "type"),
        ({"type": "node", "size": -1}, "(node)", "size"),
        ({"type": "node", "count": 4, "name": "n[0-2]"}, "(node)", "lists 3"),
        ({"type": "node", "count": 2, "id": ["x", "x"]}, "vertex 'x'", "two vertices"),
        ({"type": "node", "name": "n[0-"}, "(node)", "not closed"),
        ({"type": "node", "metadata": {"name": "x"}}, "(node)", "beside metadata"),
        ({"type": "node", "metadata": {"x": float("inf")}}, "(node)", "number"),
        ({"type": "node", "metadata": {"x": ["\ud800"]}}, "(node)", "surrogate"),
        ({"type": "node", "with": {}}, "(node)", "list"),
        ({"type": "node", "with": [7]}, "(node).with[0]", "object"),
    ],
)
def test_a_bad_entry_is_refused_with_its_path(entry: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(Invalid) as found:
        compact(entry)
    assert where in found.value.where
    assert says in found.value.what


def test_a_few_bytes_cannot_ask_for_more_vertices_than_allowed() -> None:
    bomb: dict[str, Any] = {"type": "core", "count": 1_000_000}
    for _ in range(4):
        bomb = {"type": "x", "count": 1_000_000, "with": [bomb]}
    with pytest.raises(TooLarge, match="vertices"):
        compact(bomb)
    with pytest.raises(TooLarge, match="vertices"):
        from_compact({"rainbow": "graph/1", "with": [{"type": "core", "count": 8}]}, GraphLimits(vertices=8))
    deep: dict[str, Any] = {"type": "x"}
    for _ in range(70):
        deep = {"type": "x", "with": [deep]}
    with pytest.raises(TooLarge, match="64 levels"):
        compact(deep)
    with pytest.raises(TooLarge, match="more than"):
        compact({"type": "x", "name": "n[0-999999999]"})
    with pytest.raises(TooLarge, match="more than"):
        compact({"type": "x", "name": "n" + "[0-999]" * 9})
    with pytest.raises(TooLarge, match="more than"):  # each list alone is small enough
        compact(*[{"type": "x", "name": "n[0-999999]"}] * 1000)


def test_vertices_of_a_subsystem_hang_on_names_in_short() -> None:
    graph = a_gpu_cluster(nodes=4)
    document = {
        "rainbow": "subsystem/1",
        "with": [
            {"type": "package", "name": "lammps", "on": "n[0-1]", "with": [{"type": "variant", "name": "cuda"}]},
            {"type": "licence"},
        ],
    }
    found = from_compact_subsystem("soft", graph, document)
    at = graph.names.index
    assert [(v.id, v.name, parent, hosts) for v, parent, hosts in found.items()] == [
        ("soft1", "lammps", -1, (graph.ids[at("n0")], graph.ids[at("n1")])),
        ("soft3", "", -1, (graph.ids[0],)),
        ("soft2", "cuda", 0, ()),
    ]


@given(data=st.data(), graph=graphs)
@settings(max_examples=35, deadline=None)
def test_any_subsystem_in_compact_form_reads_back_the_same(data: st.DataObject, graph: Graph) -> None:
    subsystem = data.draw(subsystems(graph))
    again = from_compact_subsystem("soft", graph, json.loads(json.dumps(to_compact_subsystem(subsystem, graph))))
    told = {v.id: (v, parent >= 0 and subsystem.vertices[parent].id, hosts) for v, parent, hosts in subsystem.items()}
    assert told == {v.id: (v, parent >= 0 and again.vertices[parent].id, hosts) for v, parent, hosts in again.items()}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "p", "on": "n9"}, "not in the cluster"),
        ({"type": "p", "on": "core0"}, "several"),
        ({"type": "p", "on": 5}, "n[0-31]"),
        ({"type": "p", "id": "0"}, "vertex '0'"),
        ({"type": "p", "count": 4}, "count"),
    ],
)
def test_a_bad_place_in_a_subsystem_is_refused_with_the_vertex(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid) as found:
        from_compact_subsystem("soft", a_gpu_cluster(), {"rainbow": "subsystem/1", "with": [entry]})
    assert says in str(found.value)
    assert "with[0]" in found.value.where or "vertex" in found.value.where


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("n[0-2,5]", ["n0", "n1", "n2", "n5"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("a,b[1-2]x", ["a", "b1x", "b2x"]),
        ("r[0-1]n[0-1]", ["r0n0", "r0n1", "r1n0", "r1n1"]),
    ],
)
def test_a_hostlist_expands_in_order(text: str, listed: list[str]) -> None:
    assert expand(text, limit=10) == listed


@given(st.lists(st.one_of(names, words, st.integers(0, 1200).map("n{:03}".format)), max_size=30))
@settings(max_examples=150, deadline=None)
def test_names_in_short_expand_to_the_same_names_in_the_same_order(listed: list[str]) -> None:
    text = collapse(listed)
    if text is None:
        assert any(not name or set(name) & set(",[]") for name in listed)
    elif listed:
        assert expand(text, limit=100) == listed


def test_runs_of_names_are_ranges() -> None:
    assert collapse([f"n{i}" for i in range(64)]) == "n[0-63]"
    assert collapse(["n08", "n09", "n10", "n1", "m", "k3"]) == "n[08-10,1],m,k3"


@pytest.mark.parametrize("text", ["a[", "a]", "a[1-]", "a[3-1]", "a[x]", "a[[1]]"])
def test_a_broken_list_of_names_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        expand(text, limit=10)


def test_idsets_are_numbers_in_short() -> None:
    assert parse_idset("0-2,7", limit=9) == [0, 1, 2, 7]
    assert parse_idset(3, limit=9) == [3]
    with pytest.raises(Invalid):
        parse_idset(["0"], limit=9)
