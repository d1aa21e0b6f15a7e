"""Reading Flux's R."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from rainbow_sched.graphs.formats.flux_r import from_flux_r
from rainbow_sched.graphs.formats.jgf.writer import to_jgf
from rainbow_sched.model.errors import Invalid, TooLarge
from tests.support.graph_cases import a_gpu_cluster, in_shape


def an_r(**execution: Any) -> dict[str, Any]:
    lite = [{"rank": "0-1", "children": {"core": "0-3", "gpu": "0"}}, {"rank": "2", "children": {"core": "0-1,7"}}]
    return {"version": 1, "execution": {"R_lite": lite, "starttime": 0, "expiration": 0, **execution}}


def test_ranks_become_nodes_with_their_cores_and_gpus() -> None:
    graph = from_flux_r(an_r(nodelist=["perl[5-6]", "login"]))
    nodes = [i for i, type in enumerate(graph.types) if type == "node"]
    assert [graph.names[i] for i in nodes] == ["perl5", "perl6", "login"]
    assert Counter(graph.types) == {"cluster": 1, "node": 3, "core": 11, "gpu": 2}
    assert set(graph.sizes) == {1}
    last = [graph.names[i] for i, parent in enumerate(graph.parents) if parent == nodes[2]]
    assert last == ["core0", "core1", "core7"]


def test_nodes_are_named_in_the_order_of_their_ranks() -> None:
    lite = [{"rank": "1", "children": {"core": "0"}}, {"rank": "0", "children": {"core": "0-1"}}]
    graph = from_flux_r(an_r(R_lite=lite, nodelist=["a,b"]))
    first = graph.names.index("a")
    assert sum(parent == first for parent in graph.parents) == 2


def test_properties_are_kept_on_the_nodes_that_carry_them() -> None:
    graph = from_flux_r(an_r(properties={"ssd": "1-2", "a100": "1"}))
    held = [graph.metadata.get(i, {}).get("properties") for i, type in enumerate(graph.types) if type == "node"]
    assert held == [None, ["a100", "ssd"], ["ssd"]]


def test_a_scheduling_graph_is_used_when_there_is_one() -> None:
    graph = a_gpu_cluster()
    assert from_flux_r({**an_r(), "scheduling": json.loads(in_shape(to_jgf(graph), "list"))}) == graph


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"version": 2}, "version"),
        ({"version": 1}, "execution"),
        (an_r(R_lite=[]), "R_lite"),
        (an_r(R_lite=[5]), "R_lite[0]"),
        (an_r(R_lite=[{"rank": "x"}]), "R_lite[0].rank"),
        (an_r(R_lite=[{"rank": "0", "children": 5}]), "R_lite[0]"),
        (an_r(R_lite=[{"rank": "0", "children": {"core": "a"}}]), "children.core"),
        (an_r(R_lite=[{"rank": "0,0"}]), "R_lite"),
        (an_r(nodelist=["a"]), "nodelist"),
        (an_r(nodelist="abc"), "nodelist"),
        (an_r(properties=[1]), "properties"),
    ],
)
def test_a_broken_r_is_refused_with_the_place(document: dict[str, Any], where: str) -> None:
    with pytest.raises(Invalid) as found:
        from_flux_r(document)
    assert where in found.value.where


def test_an_r_that_is_too_large_is_refused_before_it_is_made() -> None:
    with pytest.raises(TooLarge):
        from_flux_r(an_r(R_lite=[{"rank": "0-99999999999", "children": {}}]))
    with pytest.raises(TooLarge):
        from_flux_r(an_r(R_lite=[{"rank": "0-9999", "children": {"core": "0-9999"}}]))
    with pytest.raises(TooLarge):  # each entry alone is small enough
        from_flux_r(an_r(R_lite=[{"rank": str(i), "children": {"core": "0-999999"}} for i in range(1000)]))
