"""Convert a Slurm cluster into a resource graph with the subsystems features, partitions and gpus.

cluster > rack > node > socket > core, with memory and gres on the node. Racks and sockets exist
if Slurm reports them. The cores or gpus of one parent are one vertex with a size, so that 10,000
nodes stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from rainbow_sched.discovery.slurm import SlurmNode, SlurmPartition
from rainbow_sched.model.graph import NOTHING, Graph, Subsystem, Vertex

ROOT = "cluster"
About: TypeAlias = Callable[[str], Mapping[str, object]]
FEATURES, PARTITIONS, GPUS = "features", "partitions", "gpus"


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
    features, members, models = _groups(nodes)
    found = []
    if features:
        found.append(_flat(FEATURES, "feature", features, len(nodes), lambda name: {"name": name}))
    if members:
        found.append(_flat(PARTITIONS, "partition", members, len(nodes), lambda name: _about(name, about.get(name))))
    if models:
        found.append(_flat(GPUS, "model", models, 0, lambda name: {"name": name, "model": name}))
    return tuple(found)


def _groups(nodes: Iterable[SlurmNode]) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, list[str]]]:
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
    return features, members, models


def _about(name: str, partition: SlurmPartition | None) -> dict[str, object]:
    if partition is None:
        return {"name": name}
    found: dict[str, object] = {"name": name, "default": partition.default}
    if partition.max_time:
        found["max_time"] = partition.max_time
    return found


def _flat(name: str, type: str, hosts: Mapping[str, Sequence[str]], all: int, about: About) -> Subsystem:
    """Return a subsystem without inner edges; `Subsystem.build` is too slow for 10,000 edges."""
    vertices, hangs = [], []
    for one, on in hosts.items():
        vertices.append(Vertex(id=f"{type}:{one}", type=type, name=one, metadata=about(one)))
        hangs.append((ROOT,) if len(on) == all else tuple(dict.fromkeys(on)))
    return Subsystem(name=name, vertices=tuple(vertices), parents=(-1,) * len(vertices), hangs_on=tuple(hangs))
