"""What Flux says of its resources becomes a graph, subsystems, marks and units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.discovery.flux import (
    FluxAllocation,
    default_queue,
    flux_graph,
    flux_subsystems,
    free_totals,
    node_of_rank,
    parse_queues,
    parse_r,
    parse_status,
    scheduler,
    used_by_others,
)
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import Mark
from tests.support.graph_builders import path_of

R = {
    "version": 1,
    "execution": {
        "R_lite": [
            {"rank": "0-1", "children": {"core": "0-3"}},
            {"rank": "2", "children": {"core": "0-7", "gpu": "0-1"}},
        ],
        "nodelist": ["a[1-2]", "g1"],
        "properties": {"ib": "0-1", "a100": "2"},
    },
}


def test_an_r_becomes_nodes_with_cores_gpus_and_properties():
    graph = flux_graph("c", R)
    assert {path_of(graph, i): graph.sizes[i] for i in range(len(graph))} == {
        "/c": 1,
        "/c/a1": 1,
        "/c/a1/core": 4,
        "/c/a2": 1,
        "/c/a2/core": 4,
        "/c/g1": 1,
        "/c/g1/core": 8,
        "/c/g1/gpu": 2,
    }
    assert graph.metadata[graph.positions()["rank2"]] == {"properties": ["a100"]}


def test_ranks_of_one_host_name_are_nodes_of_their_own():
    execution = {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["vm", "vm"]}
    graph = flux_graph("c", {"version": 1, "execution": execution})
    assert [graph.ids[i] for i in node_of_rank(graph).values()] == ["rank0", "rank1"]


def jgf(about, *, short=False):
    """A scheduling graph; `short`: as flux-sched 0.54 writes it, without what follows from type and number."""

    def node(id, type, number, **keys):
        long = {} if short else {"basename": type, "name": f"{type}{number}"}
        return {"id": id, "metadata": {"type": type, **long, "id": number, **keys}}

    links = [("0", "1"), ("1", "2"), ("2", "3"), ("2", "4"), ("1", "5")]
    nodes = [
        node("0", "cluster", 0),
        node("1", "rack", 0),
        node("2", "node", 0, rank=1),
        node("3", "core", 0, rank=1),
        node("4", "memory", 0, rank=1, size=8, unit="GB"),
        node("5", "node", 1, rank=0),
    ]
    return {"nodes": nodes, "edges": [{"source": a, "target": b, **about} for a, b in links]}


@pytest.mark.parametrize(
    ("about", "short"),
    [
        ({"metadata": {"name": {"containment": "contains"}}}, False),
        ({"metadata": {"subsystem": "containment"}}, False),
        ({}, True),
    ],
)
def test_a_scheduling_graph_is_taken_as_it_is(about, short):
    graph = flux_graph("c", {**R, "scheduling": {"graph": jgf(about, short=short)}})
    at = graph.positions()
    assert [path_of(graph, at[id]) for id in ("rank1", "3", "4")] == [
        "/c/rack0/node0",
        "/c/rack0/node0/core0",
        "/c/rack0/node0/memory0",
    ]
    assert (graph.sizes[at["4"]], graph.units[at["4"]]) == (8, "GB")
    assert node_of_rank(graph) == {0: at["rank0"], 1: at["rank1"]}


def test_the_scheduler_is_known_by_the_service_that_it_offers():
    head = "Module                    Idle  S Sendq Recvq Service\njob-list 0 R 0 0\n"
    fluxion = "sched-fluxion-resource 0 R 0 0\nsched-fluxion-qmanager 1 R 0 0 sched\n"
    assert scheduler(head + fluxion) == "fluxion"
    assert scheduler(head + "sched-simple 0 R 0 0 feasibility,sched\n") == "sched-simple"
    assert scheduler(head) == ""


def test_the_default_queue_is_that_of_the_policy():
    assert default_queue({"policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}}}) == "batch"
    assert default_queue({"policy": {}}) == default_queue({}) == ""


def test_properties_and_queues_hang_on_their_nodes():
    queues = parse_queues({"queues": {"all": {}, "gpu": {"requires": ["a100"]}, "none": {"requires": ["x"]}}})
    found = flux_subsystems(flux_graph("c", R), parse_r(R), queues)
    assert {(one.name, v.name): on for one in found for v, _, on in one.items()} == {
        ("properties", "a100"): ("rank2",),
        ("properties", "ib"): ("rank0", "rank1"),
        ("queues", "all"): ("cluster",),
        ("queues", "gpu"): ("rank2",),
    }


def test_a_node_whose_cores_are_taken_but_not_its_gpus_has_no_cores():
    lite = [{"rank": "0", "children": {"core": "", "gpu": "0-1"}}]
    [node] = parse_r({"version": 1, "execution": {"R_lite": lite, "nodelist": ["g1"]}})
    assert node.counts == {"gpu": 2}


def test_what_is_no_r_is_refused():
    with pytest.raises(Invalid):
        parse_r({"version": 2})


def test_offline_is_down_and_draining_is_drained():
    text = "avail online 0\navail offline 1\ndrained online 2-3\ndrained* offline 4\nexclude online\n"
    assert parse_status(text) == {1: Mark.DOWN, 2: Mark.DRAINED, 3: Mark.DRAINED, 4: Mark.DOWN}


@settings(max_examples=100)
@given(st.lists(st.integers(0, 8), min_size=3, max_size=3), st.integers(0, 8), st.integers(0, 2))
def test_units_in_use_are_what_is_not_free_less_our_own(free, own, gpus_own):
    graph, nodes = flux_graph("c", R), parse_r(R)
    left = [min(many, node.counts["core"]) for many, node in zip(free, nodes, strict=True)]
    lite = [{"rank": str(i), "children": {"core": f"0-{many - 1}"}} for i, many in enumerate(left) if many]
    gpus = {"rank": "2", "children": {"core": f"0-{left[2] - 1}", "gpu": "0-1"}} if left[2] else None
    lite = [part for part in lite if part["rank"] != "2"] + ([gpus] if gpus else [])
    now = parse_r({"version": 1, "execution": {"R_lite": lite}}) if lite else ()
    holdings = [FluxAllocation((0,), own), FluxAllocation((2,), 0, gpus_own)]
    used = used_by_others(graph, nodes, now, {1: Mark.DRAINED}, holdings)
    assert used.get("rank2/gpu", 0) == max(0, (0 if gpus else 2) - gpus_own)
    assert used.get("rank0/core", 0) == max(0, 4 - left[0] - own)
    assert "rank1/core" not in used
    assert used.get("rank2/core", 0) == 8 - left[2]
    assert free_totals(nodes, now)["cores_free"] == sum(left)
