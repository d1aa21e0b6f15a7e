"""What Slurm prints becomes a graph, subsystems, marks and units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.discovery.slurm import (
    Gres,
    SlurmAllocation,
    free_totals,
    mark,
    nodes_not_up,
    parse_gres,
    parse_nodes,
    parse_partitions,
    parse_topology,
    slurm_graph,
    slurm_subsystems,
    used_by_others,
)
from rainbow_sched.model.graph import Mark
from tests.support.graph_builders import path_of


def a_node(name: str = "n1", **keys: object) -> str:
    """A line of `scontrol -d -o show node` as 22.05 prints it."""
    values = {
        "CoresPerSocket": 1,
        "CPUAlloc": 0,
        "CPUEfctv": 4,
        "CPUTot": 4,
        "ActiveFeatures": "(null)",
        "Gres": "(null)",
        "GresUsed": "gpu:0",
        "OS": "Linux 6.1.0 #1 SMP",
        "RealMemory": 8000,
        "AllocMem": 0,
        "Sockets": 4,
        "State": "IDLE",
        "ThreadsPerCore": 1,
        "Partitions": "main ",
        **keys,
    }
    return " ".join([f"NodeName={name} Arch=x86_64", *(f"{key}={value}" for key, value in values.items())])


GPU_NODE = a_node(
    "g1",
    CoresPerSocket=4,
    CPUEfctv=16,
    CPUTot=16,
    CPUAlloc=3,
    ActiveFeatures="a100,ib",
    Gres="gpu:a100:2(S:0-1)",
    GresUsed="gpu:a100:1(IDX:0)",
    RealMemory=16000,
    AllocMem=500,
    Sockets=2,
    State="MIXED",
    ThreadsPerCore=2,
    Partitions="main,gpu",
)


def test_a_node_has_the_cores_gpus_and_memory_that_jobs_can_use():
    (node,) = parse_nodes(GPU_NODE)
    assert (node.cores, node.cores_alloc, node.memory, node.gres) == (8, 2, 16000, (Gres("gpu", "a100", 2),))
    assert (node.features, node.partitions, node.states) == (("a100", "ib"), ("main", "gpu"), ("MIXED",))


def test_cores_and_memory_kept_for_the_system_are_not_offered():
    (node,) = parse_nodes(a_node(CPUTot=8, CPUEfctv=6, Sockets=2, CoresPerSocket=4, MemSpecLimit=1000))
    assert (node.cores, node.memory, node.even) == (6, 7000, False)


def test_free_text_cannot_pose_as_a_field():
    (node,) = parse_nodes(a_node(State="IDLE+DRAIN") + " Reason=x State=IDLE CPUTot=99 [root@now]")
    assert (mark(node), node.cpus) == (Mark.DRAINED, 4)


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("gpu:a100:4(S:0-1),fpga:1", (Gres("gpu", "a100", 4), Gres("fpga", "", 1))),
        ("gpu:4", (Gres("gpu", "", 4),)),
        ("gpu", (Gres("gpu", "", 1),)),
        ("gpu:tesla:2,gpu:kepler:2", (Gres("gpu", "tesla", 2), Gres("gpu", "kepler", 2))),
        ("lustre:no_consume:4G,shard:40", ()),
        ("disk:2K", (Gres("disk", "", 2048),)),
        ("(null)", ()),
    ],
)
def test_gres_are_read_with_kind_and_count(text, gres):
    assert parse_gres(text) == gres


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", Mark.UP),
        ("ALLOCATED", Mark.UP),
        ("IDLE+CLOUD+POWERED_DOWN", Mark.UP),
        ("MIXED+PLANNED", Mark.UP),
        ("IDLE+DRAIN", Mark.DRAINED),
        ("ALLOCATED+DRAIN", Mark.DRAINED),
        ("MAINT", Mark.DRAINED),
        ("DOWN*", Mark.DOWN),
        ("IDLE*", Mark.DOWN),
        ("DOWN+DRAIN", Mark.DOWN),
        ("IDLE+NOT_RESPONDING", Mark.DOWN),
    ],
)
def test_a_state_becomes_a_mark(state, expected):
    (node,) = parse_nodes(a_node(State=state))
    assert mark(node) is expected


def test_the_graph_has_racks_sockets_cores_memory_and_gpus():
    nodes = parse_nodes(a_node() + "\n" + GPU_NODE)
    topology = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=top Level=1 LinkSpeed=1 Nodes=n1,g1"
    graph = slurm_graph("c", nodes, parse_topology(topology))
    paths = {path_of(graph, i): graph.sizes[i] for i in range(len(graph))}
    assert paths == {
        "/c": 1,
        "/c/s1": 1,
        "/c/s1/n1": 1,
        "/c/s1/n1/core": 4,
        "/c/s1/n1/memory": 8000,
        "/c/g1": 1,
        "/c/g1/socket0": 1,
        "/c/g1/socket0/core": 4,
        "/c/g1/socket1": 1,
        "/c/g1/socket1/core": 4,
        "/c/g1/memory": 16000,
        "/c/g1/gpu-a100": 2,
    }
    assert graph.metadata[graph.positions()["g1"]] == {"properties": ["a100", "ib", "main", "gpu"]}


def test_features_partitions_and_kinds_of_gpus_hang_where_they_are():
    partitions = parse_partitions("PartitionName=gpu Default=NO MaxTime=1-00:00:00 State=UP Nodes=g1")
    found = {one.name: one for one in slurm_subsystems(parse_nodes(a_node() + "\n" + GPU_NODE), partitions)}
    hangs = {(one.name, v.name): on for one in found.values() for v, _, on in one.items()}
    assert hangs == {
        ("features", "a100"): ("g1",),
        ("features", "ib"): ("g1",),
        ("partitions", "main"): ("cluster",),  # all nodes have it
        ("partitions", "gpu"): ("g1",),
        ("gpus", "a100"): ("g1", "g1/gpu-a100"),
    }
    assert found["partitions"].vertices[1].metadata == {"name": "gpu", "default": False, "max_time": "1-00:00:00"}


def test_what_others_use_is_all_that_is_used_less_our_own():
    nodes = parse_nodes(GPU_NODE)
    graph = slurm_graph("c", nodes)
    assert used_by_others(graph, nodes, ()) == {"g1/socket0/core": 2, "g1/memory": 500, "g1/gpu-a100": 1}
    own = SlurmAllocation(nodes=("g1",), cpus=2, memory=500, gpus=1)
    assert used_by_others(graph, nodes, [own]) == {"g1/socket0/core": 1}
    assert free_totals(nodes) == {"nodes_free": 0, "cores_free": 6, "gpus_free": 1}


def test_nodes_that_are_not_up_or_not_reachable_are_marked():
    nodes = parse_nodes("\n".join([a_node("n1"), a_node("n2"), a_node("n3", State="DOWN"), a_node("x", State="DOWN")]))
    assert nodes_not_up(nodes, {"n2", "n3"}) == {"n2": "drained", "n3": "down", "x": "down"}


_shapes = st.tuples(
    st.integers(1, 4), st.integers(1, 16), st.integers(1, 2), st.integers(0, 128), st.sampled_from(["IDLE", "DOWN"])
)


@settings(max_examples=150)
@given(st.lists(_shapes, min_size=1, max_size=6))
def test_the_graph_and_the_units_in_use_add_up_to_what_slurm_says(shapes):
    lines = []
    for i, (sockets, cores, threads, used, state) in enumerate(shapes):
        cpus = sockets * cores * threads
        keys = {"Sockets": sockets, "CoresPerSocket": cores, "ThreadsPerCore": threads, "CPUTot": cpus}
        lines.append(a_node(f"n{i}", CPUEfctv=cpus, CPUAlloc=min(used, cpus), State=state, **keys))
    nodes = parse_nodes("\n".join(lines))
    graph = slurm_graph("c", nodes)
    cores = sum(size for size, type in zip(graph.sizes, graph.types, strict=True) if type == "core")
    assert cores == sum(sockets * cores for sockets, cores, *_ in shapes)
    used = sum(units for id, units in used_by_others(graph, nodes, ()).items() if id.endswith("core"))
    assert used == sum(-(-min(u, s * c * t) // t) for s, c, t, u, _ in shapes)
    positions = graph.positions()
    assert all(units <= graph.sizes[positions[id]] for id, units in used_by_others(graph, nodes, ()).items())


def test_ten_thousand_nodes_fold_into_seven_vertices_each():
    text = "\n".join(GPU_NODE.replace("NodeName=g1", f"NodeName=g{i}") for i in range(10_000))
    nodes = parse_nodes(text)
    graph = slurm_graph("big", nodes, {node.name: f"s{i // 32}" for i, node in enumerate(nodes)})
    assert len(graph) == 1 + 313 + 10_000 * 7
    assert [one.hangs_on for one in slurm_subsystems(nodes, ())][:2] == [(("cluster",),) * 2] * 2
