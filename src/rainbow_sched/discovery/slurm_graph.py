"""Convert a Slurm cluster into a resource graph with subsystems; find what of it is up, free and in use.

The subsystems are features, partitions and gpus.

cluster > rack > node > socket > core, with memory and gres on the node. Racks and sockets exist
if Slurm reports them. The cores or gpus of one parent are one vertex with a size, so that 10,000
nodes stay small.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.discovery.node_resources import flat_subsystem, leaves_by_node, spread
from rainbow_sched.discovery.slurm import SlurmNode, SlurmPartition
from rainbow_sched.model.graph import NOTHING, Graph, Mark, Subsystem, Vertex

ROOT = "cluster"
FEATURES, PARTITIONS, GPUS = "features", "partitions", "gpus"
_DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "REBOOT_ISSUED"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT"})


def slurm_graph(cluster: str, nodes: Sequence[SlurmNode], racks: Mapping[str, str] | None = None) -> Graph:
    """Return the dominant graph; the id and name of a node are its name in Slurm."""
    racks = racks or {}
    vertices = [Vertex(id=ROOT, type="cluster", name=cluster)]
    edges: list[tuple[str, str]] = []
    for rack in dict.fromkeys(racks[node.name] for node in nodes if node.name in racks):
        vertices.append(Vertex(id=f"rack:{rack}", type="rack", name=rack))
        edges.append((ROOT, f"rack:{rack}"))
    shared: dict[tuple[str, ...], Mapping[str, object]] = {(): NOTHING}
    for node in nodes:
        names = tuple(dict.fromkeys((*node.features, *node.partitions)))
        properties = shared.setdefault(names, {"properties": list(names)})
        vertices.append(Vertex(id=node.name, type="node", name=node.name, metadata=properties))
        above = f"rack:{racks[node.name]}" if node.name in racks else ROOT
        edges.append((above, node.name))
        for parent, vertex in _inside(node):
            vertices.append(vertex)
            edges.append((parent, vertex.id))
    return Graph.build(vertices, edges)


def _inside(node: SlurmNode) -> Iterator[tuple[str, Vertex]]:
    if node.even:
        for number in range(node.sockets):
            socket = f"{node.name}/socket{number}"
            yield node.name, Vertex(id=socket, type="socket", name=f"socket{number}")
            yield socket, Vertex(id=f"{socket}/core", type="core", name="core", size=node.cores_per_socket)
    else:
        yield node.name, Vertex(id=f"{node.name}/core", type="core", name="core", size=node.cores)
    yield node.name, Vertex(id=f"{node.name}/memory", type="memory", name="memory", size=node.memory, unit="MiB")
    for gres in node.gres:
        metadata = {"model": gres.kind} if gres.kind else NOTHING
        name = f"{gres.name}-{gres.kind}" if gres.kind else gres.name
        id = f"{node.name}/{name}"
        yield node.name, Vertex(id=id, type=gres.name, name=name, size=gres.count, metadata=metadata)


def slurm_subsystems(nodes: Sequence[SlurmNode], partitions: Sequence[SlurmPartition]) -> tuple[Subsystem, ...]:
    """Return features, partitions and gpu models, attached to their nodes or to the root if all nodes have them."""
    about = {part.name: part for part in partitions}
    features: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {}
    models: dict[str, list[str]] = {}
    for node in nodes:
        for feature in node.features:
            features.setdefault(feature, []).append(node.name)
        for partition in node.partitions:
            members.setdefault(partition, []).append(node.name)
        for gres in node.gres:
            if gres.name == "gpu" and gres.kind:
                models.setdefault(gres.kind, []).extend((node.name, f"{node.name}/gpu-{gres.kind}"))
    found = (
        flat_subsystem(FEATURES, "feature", features, ROOT, len(nodes)),
        flat_subsystem(PARTITIONS, "partition", members, ROOT, len(nodes), lambda name: _about(name, about.get(name))),
        flat_subsystem(GPUS, "model", models, ROOT, 0, lambda name: {"name": name, "model": name}),
    )
    return tuple(one for one in found if one is not None)


def _about(name: str, partition: SlurmPartition | None) -> dict[str, object]:
    if partition is None:
        return {"name": name}
    found: dict[str, object] = {"name": name, "default": partition.default}
    if partition.max_time:
        found["max_time"] = partition.max_time
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAllocation:
    """The resources of one job, spread evenly over its nodes."""

    nodes: tuple[str, ...]
    cpus: int = 0  # on each node, as Slurm counts them
    memory: int = 0  # MiB on each node
    gpus: int = 0  # on each node


def mark(node: SlurmNode) -> Mark:
    """Return the mark of a node; an unresponsive node is down unless it is powered off, because Slurm wakes it."""
    states = set(node.states)
    if states & _DOWN or (not node.responding and "POWERED_DOWN" not in states):
        return Mark.DOWN
    return Mark.DRAINED if states & _DRAINED else Mark.UP


def free_totals(nodes: Iterable[SlurmNode], unreachable: Container[str] = ()) -> dict[str, object]:
    """Return `nodes_free`, `cores_free` and `gpus_free` of reachable nodes that are up; a free node has no jobs."""
    free_nodes = free_cores = free_gpus = 0
    for node in nodes:
        if mark(node) is not Mark.UP or node.name in unreachable:
            continue
        free_nodes += node.cpus_alloc == 0
        free_cores += max(0, node.cores - node.cores_alloc)
        gpus = sum(gres.count for gres in node.gres if gres.name == "gpu")
        free_gpus += max(0, gpus - sum(gres.count for gres in node.gres_used if gres.name == "gpu"))
    return {"nodes_free": free_nodes, "cores_free": free_cores, "gpus_free": free_gpus}


def used_by_others(graph: Graph, nodes: Sequence[SlurmNode], own: Iterable[SlurmAllocation]) -> dict[str, int]:
    """Return units in use by vertex id, without our own jobs, which the server counts itself."""
    mine: dict[tuple[str, str], int] = {}
    for holding in own:
        for name in holding.nodes:
            for type, units in (("cpu", holding.cpus), ("memory", holding.memory), ("gpu", holding.gpus)):
                mine[name, type] = mine.get((name, type), 0) + units
    leaves = leaves_by_node(graph, graph.names)
    used: dict[str, int] = {}
    for node in nodes:
        others = max(0, node.cpus_alloc - mine.get((node.name, "cpu"), 0))
        amounts = {"core": node.cores_of(others), "memory": node.memory_alloc}
        for gres in node.gres_used:
            amounts[gres.name] = amounts.get(gres.name, 0) + gres.count
        for type, amount in amounts.items():
            rest = amount - mine.get((node.name, type), 0)
            used |= spread(graph, leaves.get((node.name, type), ()), rest)
    return used


def nodes_not_up(nodes: Sequence[SlurmNode], unreachable: Container[str] = ()) -> dict[str, str]:
    """Return the marks of nodes that are not up; a node that is in none of our partitions counts as drained."""
    found = {}
    for node in nodes:
        now = mark(node)
        if now is Mark.UP and node.name in unreachable:
            now = Mark.DRAINED
        if now is not Mark.UP:
            found[node.name] = str(now)
    return found
