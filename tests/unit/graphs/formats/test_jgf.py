"""Reading and writing JGF."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.graphs.formats.jgf import parts as jgf_parts
from rainbow_sched.graphs.formats.jgf.reader import read_graph, read_subsystem
from rainbow_sched.graphs.formats.jgf.values import GraphLimits
from rainbow_sched.graphs.formats.jgf.writer import subsystem_to_jgf, to_jgf
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import Graph
from tests.support.graph_cases import a_gpu_cluster, graphs, in_shape, parts, subsystems

REAL = Path(__file__).parents[4].parent / "shared" / "data" / "spack-builds" / "clusters"


def a_document(nodes: Any, edges: Any = ()) -> str:
    return json.dumps({"graph": {"nodes": nodes, "edges": [link(*edge) for edge in edges]}})


def link(source: str, target: str, relation: str = "contains") -> dict[str, str]:
    return {"source": source, "target": target, "relation": relation}


def node(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata}


def refused(text: str | bytes) -> Invalid:
    with pytest.raises(Invalid) as found:
        read_graph(text)
    return found.value


@given(graph=graphs, shape=st.sampled_from(["dict", "list"]))
@settings(max_examples=40, deadline=None)
def test_a_graph_written_as_jgf_reads_back_equal_in_both_shapes(graph: Graph, shape: str) -> None:
    assert read_graph(in_shape(to_jgf(graph), shape)) == graph


@given(found=parts(), size=st.integers(1, 400), shape=st.sampled_from(["dict", "list"]))
@settings(max_examples=35, deadline=None)
def test_reading_in_pieces_gives_what_building_from_objects_gives(found: Any, size: int, shape: str) -> None:
    vertices, edges = found
    nodes: Any = {v.id: node(**v.metadata, type=v.type, name=v.name, size=v.size, unit=v.unit) for v in vertices}
    if shape == "list":
        nodes = [{"id": id, **body} for id, body in nodes.items()]
    before, jgf_parts.PIECE_BYTES = jgf_parts.PIECE_BYTES, size
    try:
        assert read_graph(a_document(nodes, edges)) == Graph.build(vertices, edges)
    finally:
        jgf_parts.PIECE_BYTES = before


def test_a_large_plain_graph_is_read_piece_by_piece_like_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = a_gpu_cluster(nodes=40, cores=30)
    for size in (1, 50, 1000, 1 << 20):
        monkeypatch.setattr(jgf_parts, "PIECE_BYTES", size)
        assert read_graph(to_jgf(graph)) == graph
        assert read_graph(in_shape(to_jgf(graph), "list").replace(",", " ,\n ")) == graph


@pytest.mark.parametrize("shape", ["dict", "list"])
def test_a_long_text_is_really_cut_and_every_piece_is_whole(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jgf_parts, "PIECE_BYTES", 500)
    graph = a_gpu_cluster(nodes=10)
    nodes, _ = jgf_parts.sections(in_shape(to_jgf(graph), shape), GraphLimits())
    taken: list[int] = []

    def unusual(piece: bytes) -> None:
        raise msgspec.ValidationError

    def keep(piece: bytes) -> None:
        taken.append(len(json.loads(piece)))

    assert len(list(jgf_parts.pieces(nodes, unusual, keep))) == len(taken) > 10
    assert sum(taken) == len(graph)
    assert max(taken) < 10


def test_the_root_is_the_vertex_that_nothing_contains_whatever_its_id() -> None:
    nodes = {"a": node(type="core"), "zz": node(type="cluster"), "b": node(type="node")}
    graph = read_graph(a_document(nodes, [("zz", "b"), ("b", "a")]))
    assert list(graph.ids) == ["zz", "b", "a"]
    assert list(graph.parents) == [-1, 0, 1]


def test_a_single_vertex_without_edges_is_a_graph() -> None:
    assert read_graph(a_document({"only": node(type="node")})).types == ["node"]
    assert read_graph('{"graph": {"nodes": [{"id": "only"}]}}').types == ["resource"]


def test_in_edges_are_ignored_even_if_they_are_wrong() -> None:
    edges = [("a", "b"), ("b", "nowhere", "in"), ("b", "b", "in"), ("b", "a", "conduit_of")]
    assert read_graph(a_document({"a": node(), "b": node()}, edges)).ids == ["a", "b"]


@pytest.mark.parametrize(
    "extra",
    [
        {"metadata": {"name": {"containment": "contains"}}},
        {"metadata": {"subsystem": "containment"}},
        {"metadata": {"relation": "contains"}},
        {},
    ],
)
def test_the_relation_may_stand_where_flux_wrote_it_over_the_years(extra: dict[str, Any]) -> None:
    edges = [
        {"source": "a", "target": "b"} | extra,
        {"source": "b", "target": "a", "metadata": {"name": {"containment": "in"}}},
    ]
    text = json.dumps({"graph": {"nodes": [{"id": "a"}, {"id": "b"}], "edges": edges}})
    assert list(read_graph(text).parents) == [-1, 0]


def test_ids_may_be_numbers_in_the_list_shape() -> None:
    nodes = [{"id": 0}, {"id": 1}]
    text = json.dumps({"graph": {"nodes": nodes, "edges": [{"source": 0, "target": 1, "relation": "contains"}]}})
    assert read_graph(text).ids == ["0", "1"]


def test_names_come_from_name_else_basename_and_id_else_the_path() -> None:
    nodes = {
        "0": node(name="perl"),
        "1": node(basename="n", id=7),
        "2": node(type="core", id="3"),
        "3": node(paths={"containment": "/perl/x9"}),
        "4": node(),
        "5": {"label": "five", "metadata": {}},
    }
    graph = read_graph(a_document(nodes, [("0", str(i)) for i in range(1, 6)]))
    assert graph.names == ["perl", "n7", "core3", "x9", "", "five"]


def test_free_metadata_is_kept_and_structural_keys_are_not_repeated() -> None:
    full = {"type": "gpu", "size": 2, "unit": "", "rank": 3, "exclusive": True, "uniq_id": 9, "properties": {}}
    graph = read_graph(a_document({"0": node(**full, model="a100", mig=[1, {"x": None}])}))
    assert graph.metadata == {0: {"model": "a100", "mig": [1, {"x": None}]}}
    assert list(graph.sizes) == [2]


@pytest.mark.parametrize("size", ['"4"', "0", "-1", "1.5", "NaN", "1e999", "-Infinity", "true", "[1]", "9" * 30])
@pytest.mark.parametrize("shape", ["dict", "list"])
def test_a_size_that_is_no_whole_number_from_one_on_is_refused_with_the_vertex(size: str, shape: str) -> None:
    body = f'{{"metadata":{{"size":{size}}}}}'
    nodes = f'{{"good":{{}},"bad":{body}}}' if shape == "dict" else f'[{{"id":"good"}},{{"id":"bad",{body[1:]}]'
    error = refused(f'{{"graph":{{"nodes":{nodes},"edges":[{json.dumps(link("good", "bad"))}]}}}}')
    assert error.where == "vertex 'bad'"
    assert "size" in error.what


@pytest.mark.parametrize("size", ["0", "-1", str(2**53 + 1), str(2**70)])
def test_a_bad_size_among_many_plain_vertices_is_found_too(size: str) -> None:
    text = to_jgf(a_gpu_cluster(nodes=3))
    assert text.count('"size":256,') == 3
    error = refused(text.replace('"size":256,', f'"size":{size},', 1))
    assert "size" in error.what
    assert error.where.startswith("vertex ")
    plain = to_jgf(
        from_compact({"rainbow": "graph/1", "cluster": "c", "with": [{"type": "core", "count": 9, "size": 7}]})
    )
    assert "size" in refused(plain.replace('"size":7,', f'"size":{size},', 1)).what


def test_a_whole_number_written_as_a_float_is_a_size() -> None:
    assert list(read_graph(a_document({"0": node(size=4.0)})).sizes) == [4]


def test_two_vertices_of_one_id_are_refused_in_both_shapes_and_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = ",".join(f'"{id}":{{"metadata":{{"type":"core","name":"c{id}"}}}}' for id in ("7", "8", "9", "7"))
    listed = [{"id": id, **node(type="core", name="c")} for id in ("7", "8", "7")]
    for size in (1, 1 << 20):
        monkeypatch.setattr(jgf_parts, "PIECE_BYTES", size)
        for text in (f'{{"graph":{{"nodes":{{{twice}}}}}}}', a_document(listed)):
            error = refused(text)
            assert error.where == "vertex '7'"
            assert "two vertices" in error.what


@given(found=parts(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_every_broken_tree_is_refused_with_a_vertex_named(found: Any, data: st.DataObject) -> None:
    vertices, edges = found
    ids = [v.id for v in vertices]
    nodes = {v.id: node(type=v.type, name=v.name) for v in vertices}
    child = data.draw(st.sampled_from(ids))
    breakage = data.draw(st.sampled_from(["unknown", "itself", "orphan", "cycle"]))
    if breakage == "unknown":
        edges = [*edges, data.draw(st.sampled_from([(child, "no such"), ("no such", child)]))]
    elif breakage == "itself":
        edges = [*edges, (child, child)]
    elif breakage == "orphan":
        nodes["lonely!!"] = node()
    else:  # a ring beside the tree
        nodes |= {"ring!1": node(), "ring!2": node()}
        edges = [*edges, ("ring!1", "ring!2"), ("ring!2", "ring!1")]
    assert refused(a_document(nodes, edges)).where.startswith("vertex ")


def test_two_parents_are_refused_with_both_named() -> None:
    error = refused(a_document({"a": node(), "b": node(), "c": node()}, [("a", "b"), ("a", "c"), ("b", "c")]))
    assert (error.where, error.what) == ("vertex 'c'", "has two parents, 'a' and 'b'")


def test_the_same_edge_twice_is_one_edge() -> None:
    assert len(read_graph(a_document({"a": node(), "b": node()}, [("a", "b"), ("a", "b")]))) == 2


def test_a_cycle_that_holds_everything_is_refused() -> None:
    assert "cycle" in refused(a_document({"a": node(), "b": node()}, [("a", "b"), ("b", "a")])).what


def test_a_path_of_more_than_64_levels_is_too_deep_with_the_vertex_named() -> None:
    def chain(many: int) -> str:
        return a_document({str(i): node() for i in range(many)}, [(str(i), str(i + 1)) for i in range(many - 1)])

    assert len(read_graph(chain(64))) == 64
    error = refused(chain(65))
    assert isinstance(error, TooLarge)
    assert error.where == "vertex '64'"


def test_too_many_vertices_and_too_long_texts_are_refused() -> None:
    text = to_jgf(a_gpu_cluster())
    with pytest.raises(TooLarge, match="at most 5 vertices"):
        read_graph(text, GraphLimits(vertices=5))
    with pytest.raises(TooLarge, match="bytes of JSON"):
        read_graph(text, GraphLimits(text=100))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "no JGF"),
        ("{}", "no JGF"),
        ('{"graphs": [{"nodes": {}}]}', "one cluster"),
        ('{"graph": {}}', 'no "nodes"'),
        ('{"graph": {"nodes": {}}}', 'no "nodes"'),
        ('{"graph": {"nodes": 5}}', "a list or a dict"),
        ('{"graph": {"nodes": [7]}}', "needs an id"),
        ('{"graph": {"nodes": {"a": 7}}}', "vertex 'a'"),
        ('{"graph": {"nodes": {"a": {"metadata": []}}}}', "vertex 'a'"),
        ('{"graph": {"nodes": {"a": {"metadata": {"type": 4}}}}}', "vertex 'a'"),
        ('{"graph": {"nodes": {"": {}}}}', "needs an id"),
        ('{"graph": {"nodes": {"a": {}}, "edges": {}}}', "must be a list"),
        ('{"graph": {"nodes": {"a": {}}, "edges": [1]}}', "edge 0"),
        ('{"graph": {"nodes": {"a": {}}, "edges": [{"source": [], "target": "a"}]}}', "edge 0"),
        ('{"graph": {"nodes": {"a": {"metadata": {"x": "\\ud800"}}}}}', "surrogate"),
        ('{"graph": {"nodes": {"a": {"metadata": {"x": 1e999}}}}}', "vertex 'a'"),
        ('{"graph": {"nodes": {"a": {"metadata": {"x": NaN}}}}}', "vertex 'a'"),
        ('{"graph": {"nodes": {"a": {"metadata": {"x": "\\u0000"}}}}}', "NUL"),
        (b'{"graph": {"nodes": {"\xff": {}}}}', ""),
    ],
)
def test_what_is_no_graph_is_refused_with_words(text: str | bytes, says: str) -> None:
    assert says in str(refused(text))


@pytest.mark.parametrize("where", ['{"graph":{"nodes":{"a":{"metadata":{"x":', '{"other":', '{"graph":{"nodes":', ""])
def test_a_nesting_bomb_is_refused(where: str) -> None:
    for bracket in ("[", '{"a":'):
        refused(where + bracket * 100_000)


@given(graph=graphs, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_mutated_document_is_read_or_refused_and_nothing_else(graph: Graph, data: st.DataObject) -> None:
    text = bytearray(in_shape(to_jgf(graph), data.draw(st.sampled_from(["dict", "list"]))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.binary(max_size=3), st.sampled_from([b"{", b'"', b"[", b"1e999", b"null", b"-1", b"}}", b",,"])
            )
        )
    with contextlib.suppress(Invalid):
        assert len(read_graph(bytes(text))) > 0


@given(data=st.data(), graph=graphs, shape=st.sampled_from(["dict", "list"]))
@settings(max_examples=35, deadline=None)
def test_a_subsystem_written_as_jgf_reads_back_equal(data: st.DataObject, graph: Graph, shape: str) -> None:
    subsystem = data.draw(subsystems(graph))
    assert read_subsystem("soft", graph, in_shape(subsystem_to_jgf(subsystem), shape)) == subsystem


def test_a_subsystems_own_root_that_hangs_on_nothing_is_left_out() -> None:
    graph = a_gpu_cluster(nodes=1)
    nodes = {"io0": node(type="io"), "io1": node(type="nvme"), "io2": node(type="shm"), "io3": node(type="never")}
    edges = [(graph.ids[2], "io1"), ("io1", "io2"), ("io0", "io1"), ("io0", "io3")]
    found = read_subsystem("io", graph, a_document(nodes, edges))
    assert [(v.id, parent, hosts) for v, parent, hosts in found.items()] == [
        ("io1", -1, (graph.ids[2],)),
        ("io3", -1, ()),
        ("io2", 0, ()),
    ]


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([("0", "io1"), ("0", "io2")], "lonely"),
        ([("0", "io1"), ("0", "io2"), ("99", "lonely")], "lonely"),
        ([("0", "io1"), ("0", "io2"), ("io1", "lonely"), ("io2", "lonely")], "lonely"),
        ([("0", "io1"), ("0", "io2"), ("0", "lonely"), ("0", "ghost")], "ghost"),
    ],
)
def test_a_subsystem_vertex_that_hangs_wrongly_is_refused_by_name(edges: list[tuple[str, str]], named: str) -> None:
    nodes = {"io1": node(type="nvme"), "io2": node(type="nvme"), "lonely": node(type="shm")}
    with pytest.raises(Invalid) as found:
        read_subsystem("io", a_gpu_cluster(nodes=1), a_document(nodes, edges))
    assert found.value.where == f"vertex {named!r}"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real clusters are not beside the repository")
def test_real_clusters_and_their_subsystems_read_as_they_are() -> None:
    folders = sorted(REAL.iterdir())
    assert len(folders) == 100
    for folder in folders:
        graph = read_graph((folder / "nodes.json").read_bytes())
        assert len(graph) == 18
        for name, many in (("arch", 1), ("memory", 1), ("compiler", 2)):
            found = read_subsystem(name, graph, (folder / f"{name}-subsystem.json").read_bytes())
            assert len(found.vertices) == many
            assert all("value" in vertex.metadata for vertex in found.vertices)
            assert all(len(hosts) == 4 for hosts in found.hangs_on)
