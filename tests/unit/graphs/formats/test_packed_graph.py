"""The stored form of graphs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.graphs.formats.jgf.reader import read_graph
from rainbow_sched.graphs.formats.jgf.writer import to_jgf
from rainbow_sched.graphs.formats.packed_graph import pack, pack_subsystem, unpack, unpack_subsystem
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.graph import Graph
from tests.support.compact_writer import to_compact
from tests.support.graph_cases import a_gpu_cluster, graphs, in_shape, subsystems


@given(graph=graphs)
@settings(max_examples=40, deadline=None)
def test_a_packed_graph_unpacks_to_itself(graph: Graph) -> None:
    again = unpack(pack(graph))
    assert again == graph
    assert {i: list(held) for i, held in again.metadata.items()} == {
        i: sorted(held) for i, held in graph.metadata.items()
    }


@given(graph=graphs)
@settings(max_examples=30, deadline=None)
def test_one_graph_is_the_same_bytes_whatever_form_it_came_in(graph: Graph) -> None:
    forms = [
        read_graph(to_jgf(graph)),
        read_graph(in_shape(to_jgf(graph), "list")),
        from_compact(json.loads(json.dumps(to_compact(graph)))),
        unpack(pack(graph)),
    ]
    assert {pack(form) for form in forms} == {pack(graph)}


@given(data=st.data(), graph=graphs)
@settings(max_examples=30, deadline=None)
def test_a_packed_subsystem_unpacks_to_itself(data: st.DataObject, graph: Graph) -> None:
    subsystem = data.draw(subsystems(graph))
    assert unpack_subsystem(pack_subsystem(subsystem)) == subsystem


def test_a_thousand_equal_nodes_are_a_few_kilobytes() -> None:
    assert len(pack(a_gpu_cluster(nodes=1000, cores=64))) < 16_000


def test_equal_graphs_are_packed_into_equal_bytes() -> None:
    one, other = pack(a_gpu_cluster(nodes=3)), pack(a_gpu_cluster(nodes=4))
    assert one == pack(a_gpu_cluster(nodes=3))
    assert one != other


@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_changed_byte_is_corrupt_or_makes_no_difference(at: int, flip: int) -> None:
    good = a_gpu_cluster(nodes=2)
    data = bytearray(pack(good))
    data[at % len(data)] ^= flip
    try:
        found = unpack(bytes(data))
    except Corrupt:
        return
    assert pack(found) == pack(good)  # some bits of a compressed stream mean nothing


@pytest.mark.parametrize("data", [b"", b"RbG1", b"x" * 100, pack(a_gpu_cluster())[:-5]])
def test_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        unpack(data)
    with pytest.raises(Corrupt):
        unpack_subsystem(data)


def test_a_graph_is_no_subsystem() -> None:
    with pytest.raises(Corrupt):
        unpack_subsystem(pack(a_gpu_cluster()))
