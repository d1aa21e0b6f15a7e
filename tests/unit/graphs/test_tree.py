"""Drawing graphs."""

from __future__ import annotations

from hypothesis import given, settings

from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.graphs.tree import Folded, draw, fold
from rainbow_sched.model.graph import Graph
from tests.support.graph_cases import a_gpu_cluster, graphs


def test_equal_nodes_are_one_line_with_what_they_hold() -> None:
    assert draw(a_gpu_cluster(nodes=64, cores=64)).splitlines() == [
        "cluster perl",
        "└─ rack rack0",
        "   └─ node n[0-63] x64 (fast): 64 core, 2 gpu (a100), 256 GB memory",
    ]


def test_levels_in_between_are_lines_of_their_own() -> None:
    socket = {"type": "socket", "count": 2, "with": [{"type": "core", "count": 48}]}
    nodes = {"type": "node", "count": 16, "name": "n[0-63]", "with": [socket]}
    graph = from_compact(
        {"rainbow": "graph/1", "cluster": "big", "with": [{"type": "rack", "count": 4, "with": [nodes]}]}
    )
    assert draw(graph).splitlines() == [
        "cluster big",
        "└─ rack rack[0-3] x4",
        "   └─ node n[0-63] x16 each",
        "      └─ socket x2 each: 48 core",
    ]


def members(folded: Folded) -> list[int]:
    return [*folded.members, *(i for entry in folded.inside for i in members(entry))]


@given(graph=graphs)
@settings(max_examples=35, deadline=None)
def test_folding_loses_and_invents_no_vertex(graph: Graph) -> None:
    assert sorted(members(fold(graph))) == list(range(len(graph)))
    assert draw(graph)
