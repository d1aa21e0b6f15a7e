"""Synthetic fleets and requests for benchmarks: a few cluster designs, with different software on each cluster."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.model.graph import Graph, Subsystem, Vertex
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Within

DESIGNS = ((32, 0, 128), (48, 4, 256), (64, 0, 256), (96, 8, 512), (128, 4, 512), (64, 2, 384))  # cores, gpus, GB
TARGETS = ("zen2", "zen3", "zen4", "skylake", "icelake", "neoverse_v1")
SYSTEMS = ("rhel8", "rhel9", "ubuntu22.04")


def design(nodes: int, cores: int, gpus: int, memory: int) -> Graph:
    """Build equal nodes in racks of fifty; cores, gpus and memory are vertices with a size."""
    vertices = [Vertex(id="root", type="cluster", name="cluster")]
    edges: list[tuple[str, str]] = []
    for n in range(nodes):
        rack, node = f"rack{n // 50}", f"n{n}"
        if n % 50 == 0:
            vertices.append(Vertex(id=rack, type="rack", name=rack))
            edges.append(("root", rack))
        vertices.append(Vertex(id=node, type="node", name=node))
        edges.append((rack, node))
        for type, size, unit in (("core", cores, ""), ("gpu", gpus, ""), ("memory", memory, "GB")):
            if size:
                vertices.append(Vertex(id=f"{node}-{type}", type=type, name=f"{type}0", size=size, unit=unit))
                edges.append((node, f"{node}-{type}"))
    return Graph.build(vertices, edges)


def subsystems(graph: Graph, positions: dict[str, int], rng: Random) -> Iterator[Subsystem]:
    """Yield the architecture, attached to the root, and software, partly attached to every second rack."""
    arch = {"target": rng.choice(TARGETS), "os": rng.choice(SYSTEMS)}
    yield Subsystem.build("arch", positions, [Vertex(id="arch0", type="arch", metadata=arch)], [("root", "arch0")])
    lammps = {"name": "lammps", "version": f"{rng.randint(2019, 2025)}.{rng.randint(1, 12)}"}
    gcc = {"name": "gcc", "version": f"{rng.randint(9, 14)}.{rng.randint(0, 4)}.0"}
    vertices = [
        Vertex(id="soft0", type="package", metadata=gcc),
        Vertex(id="soft1", type="package", metadata=lammps),
    ]
    racks = [id for id, type in zip(graph.ids, graph.types, strict=True) if type == "rack"]
    edges = [("root", "soft0"), *((rack, "soft1") for rack in racks[::2])]
    yield Subsystem.build("software", positions, vertices, edges)


def a_fleet(clusters: int, nodes: int, seed: int = 1) -> MemoryBackend:
    """Return `clusters` clusters of `nodes` nodes, with two subsystems each."""
    backend = MemoryBackend()
    fill(backend, clusters, nodes, seed)
    return backend


def fill(backend: GraphBackend, clusters: int, nodes: int, seed: int = 1) -> None:
    """Put the same fleet into any backend."""
    rng = Random(seed)
    graphs = [design(nodes, *each) for each in DESIGNS]
    positions = [graph.positions() for graph in graphs]
    for i in range(clusters):
        graph = graphs[i % len(graphs)]
        name = f"c{i:05}"
        backend.put(name, graph)
        for subsystem in subsystems(graph, positions[i % len(graphs)], rng):
            backend.put_subsystem(name, subsystem)


def requests(rng: Random, nodes: int) -> Iterator[Request]:
    """Yield different requests: slots of cores, often with gpus, memory and requirements."""
    while True:
        inside = [Level(type="core", count=Count(rng.randint(1, 64)))]
        if rng.random() < 0.4:
            inside.append(Level(type="gpu", count=Count(rng.randint(1, 4))))
        if rng.random() < 0.4:
            inside.append(Level(type="memory", count=Count(rng.randint(1, 400)), unit="GB"))
        requires: list[Requirement] = []
        if rng.random() < 0.5:
            requires.append(Requirement("arch", (Equals("target", rng.choice(TARGETS)),)))
        if rng.random() < 0.5:
            least = f"{rng.randint(2018, 2024)}.{rng.randint(1, 999)}"
            requires.append(Requirement("software", (Equals("name", "lammps"), Within("version", least))))
        level = Level(
            type="node",
            count=Count(rng.randint(1, max(2, nodes // 2))),
            shared=rng.random() < 0.5,
            requires=tuple(requires),
            inside=tuple(inside),
        )
        yield Request(groups=(Group(levels=(level,)),))
