"""What Flux says of its resources becomes a graph, subsystems, marks and units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow.discover.flux import flux_graph, flux_subsystems, node_of_rank, parse_queues, parse_r
from rainbow.discover.flux_state import FluxHolding, parse_status, totals, used_by_others
from rainbow.model.errors import Invalid
from rainbow.model.graph import Mark

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
    assert {graph.path(i): graph.sizes[i] for i in range(len(graph))} == {
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


@pytest.mark.parametrize("name", [{"containment": "contains"}, None])
def test_a_scheduling_graph_is_taken_as_it_is(name):
    def node(id, type, number, **keys):
        return {"id": id, "metadata": {"type": type, "basename": type, "name": f"{type}{number}", "id": number, **keys}}

    about = {"name": name} if name else {"subsystem": "containment"}
    links = [("0", "1"), ("1", "2"), ("2", "3"), ("2", "4")]
    jgf = {
        "nodes": [
            node("0", "cluster", 0),
            node("1", "rack", 0),
            node("2", "node", 0, rank=0),
            node("3", "core", 0),
            node("4", "memory", 0, size=8, unit="GB"),
        ],
        "edges": [{"source": a, "target": b, "metadata": about} for a, b in links],
    }
    graph = flux_graph("c", {**R, "scheduling": {"graph": jgf}})
    assert [graph.path(i) for i in range(5)][3:] == ["/cluster0/rack0/node0/core0", "/cluster0/rack0/node0/memory0"]
    assert (graph.sizes[4], graph.units[4], node_of_rank(graph)) == (8, "GB", {0: 2})


def test_properties_and_queues_hang_on_their_nodes():
    queues = parse_queues({"queues": {"all": {}, "gpu": {"requires": ["a100"]}, "none": {"requires": ["x"]}}})
    found = flux_subsystems(flux_graph("c", R), parse_r(R), queues)
    assert {(one.name, v.name): on for one in found for v, _, on in one.items()} == {
        ("properties", "a100"): ("rank2",),
        ("properties", "ib"): ("rank0", "rank1"),
        ("queues", "all"): ("cluster",),
        ("queues", "gpu"): ("rank2",),
    }


def test_what_is_no_r_is_refused():
    with pytest.raises(Invalid):
        parse_r({"version": 2})


def test_offline_is_down_and_draining_is_drained():
    text = "avail online 0\navail offline 1\ndrained online 2-3\ndrained* offline 4\nexclude online\n"
    assert parse_status(text) == {1: Mark.DOWN, 2: Mark.DRAINED, 3: Mark.DRAINED, 4: Mark.DOWN}


@settings(max_examples=100)
@given(st.lists(st.integers(0, 8), min_size=3, max_size=3), st.integers(0, 8))
def test_units_in_use_are_what_is_not_free_less_our_own(free, own):
    graph, nodes = flux_graph("c", R), parse_r(R)
    left = [min(many, node.counts["core"]) for many, node in zip(free, nodes, strict=True)]
    lite = [{"rank": str(i), "children": {"core": f"0-{many - 1}"}} for i, many in enumerate(left) if many]
    gpus = {"rank": "2", "children": {"core": f"0-{left[2] - 1}", "gpu": "0-1"}} if left[2] else None
    lite = [part for part in lite if part["rank"] != "2"] + ([gpus] if gpus else [])
    now = parse_r({"version": 1, "execution": {"R_lite": lite}}) if lite else ()
    used = used_by_others(graph, nodes, now, {1: Mark.DRAINED}, [FluxHolding((0,), own)])
    assert used.get("rank0/core", 0) == max(0, 4 - left[0] - own)
    assert "rank1/core" not in used
    assert used.get("rank2/core", 0) == 8 - left[2]
    assert totals(nodes, now)["cores_free"] == sum(left)
