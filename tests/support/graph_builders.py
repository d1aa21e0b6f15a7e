"""Builders of graphs, subsystems and requests for tests: what matters is an argument, the rest has a default."""

from __future__ import annotations

from random import Random

from rainbow_sched.model.graph import Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Within


def a_graph(
    name: str = "c",
    *,
    nodes: int = 2,
    cores: int = 4,
    gpus: int = 0,
    memory: int = 0,
    racks: int = 0,
    sockets: int = 0,
    properties: dict[int, list[str]] | None = None,
) -> Graph:
    """A cluster of equal nodes; cores are one sized vertex per node or socket, memory is in GB."""
    vertices = [Vertex(id="root", type="cluster", name=name)]
    edges: list[tuple[str, str]] = []

    def add(parent: str, id: str, type: str, size: int = 1, unit: str = "", **metadata: object) -> str:
        vertices.append(Vertex(id=id, type=type, name=id, size=size, unit=unit, metadata=metadata))
        edges.append((parent, id))
        return id

    tops = [add("root", f"rack{r}", "rack") for r in range(racks)] or ["root"]
    for n in range(nodes):
        extra = {"properties": properties[n]} if properties and n in properties else {}
        node = add(tops[n * len(tops) // nodes], f"node{n}", "node", **extra)
        holders = [add(node, f"{node}-socket{s}", "socket") for s in range(sockets)] or [node]
        for holder in holders:
            if cores:
                add(holder, f"{holder}-core", "core", cores // len(holders))
            if gpus:
                add(holder, f"{holder}-gpu", "gpu", max(1, gpus // len(holders)))
        if memory:
            add(node, f"{node}-memory", "memory", memory, "GB")
    return Graph.build(vertices, edges)


def a_subsystem(graph: Graph, name: str, hung: dict[str, dict[str, object]]) -> Subsystem:
    """One vertex per entry: the dominant ids it hangs on (comma between several) and its fields."""
    vertices = [Vertex(id=f"{name}-{i}", type=name, metadata=fields) for i, fields in enumerate(hung.values())]
    edges = [(on, f"{name}-{i}") for i, ids in enumerate(hung) for on in ids.split(",")]
    return Subsystem.build(name, graph.ids, vertices, edges)


def a_request(*levels: Level, **rest: object) -> Request:
    """A request of one group per level."""
    return Request(groups=tuple(Group(levels=(level,)) for level in levels), **rest)  # type: ignore[arg-type]


def a_level(type: str, count: int = 1, *inside: Level, **rest: object) -> Level:
    """A level; what is inside follows the count."""
    return Level(type=type, count=Count(count), inside=inside, **rest)  # type: ignore[arg-type]


def slots(count: int, *inside: Level, host: str = "node", **rest: object) -> Level:
    """`count` slots inside hosts that may be shared."""
    return a_level(host, count, *inside, shared=True, **rest)


def requires(subsystem: str, field: str, value: object) -> tuple[Requirement, ...]:
    """One requirement of equality."""
    return (Requirement(subsystem, (Equals(field, value),)),)  # type: ignore[arg-type]


def random_graph(rng: Random) -> Graph:
    """A small, lopsided cluster: racks, nodes, sockets, sized and counted cores, gpus, memory."""
    vertices = [Vertex(id="0", type="cluster", name="c0")]
    edges: list[tuple[str, str]] = []

    def add(parent: str, type: str, size: int = 1, unit: str = "", **metadata: object) -> str:
        id = str(len(vertices))
        vertices.append(Vertex(id=id, type=type, name=f"{type}{id}", size=size, unit=unit, metadata=metadata))
        edges.append((parent, id))
        return id

    tops = [add("0", "rack") for _ in range(rng.choice((0, 1, 1, 2)))] or ["0"]
    for _ in range(rng.randint(2, 4)):
        extra: dict[str, object] = {"properties": ["fast"]} if rng.random() < 0.3 else {}
        node = add(rng.choice(tops), "node", **extra)
        for holder in [add(node, "socket") for _ in range(rng.choice((0, 1, 2, 2)))] or [node]:
            if rng.random() < 0.5:
                add(holder, "core", rng.randint(1, 4))
            else:
                for _ in range(rng.randint(0, 3)):
                    add(holder, "core", 1 if rng.random() < 0.8 else 2)
            if rng.random() < 0.6:
                add(holder, "gpu", rng.randint(1, 2))
        if rng.random() < 0.4:
            add(node, "memory", rng.randint(1, 4), "GB")
    return Graph.build(vertices, edges)


def random_subsystem(rng: Random, graph: Graph, name: str = "soft") -> Subsystem:
    """A few vertices hung on nodes, racks, the root or on each other; some hang on several."""
    targets = [id for id, type in zip(graph.ids, graph.types, strict=True) if type not in ("memory",)]
    vertices: list[Vertex] = []
    edges: list[tuple[str, str]] = []
    for i in range(rng.randint(1, 4)):
        fields = {"x": rng.choice((1, 2, "2", 3)), "y": rng.choice((1, 2))}
        vertices.append(Vertex(id=f"{name}{i}", type=name, metadata=fields))
        if i and rng.random() < 0.4:
            edges.append((f"{name}{rng.randrange(i)}", f"{name}{i}"))
        if i == 0 or rng.random() < 0.6 or not edges or edges[-1][1] != f"{name}{i}":
            edges += [(on, f"{name}{i}") for on in {rng.choice(targets) for _ in range(rng.randint(1, 2))}]
    return Subsystem.build(name, graph.ids, vertices, edges)


def random_requirement(rng: Random, name: str = "soft") -> Requirement:
    """Equality, ranges, several terms, or a tree."""
    field, value = rng.choice("xy"), rng.randint(1, 3)
    first = Equals(field, value) if rng.random() < 0.6 else Within(field, value, None)
    terms = (first,) if rng.random() < 0.8 else (first, Within("y", None, rng.randint(1, 2)))
    below = (Requirement(name, (Equals("x", rng.randint(1, 3)),)),) if rng.random() < 0.2 else ()
    return Requirement(name, terms, below)


def random_level(
    rng: Random, types: tuple[str, ...] = ("rack", "node", "socket"), depth: int = 0, asks: float = 0.08
) -> Level:
    """A level of a type at or below the first of `types`, with leaves at the end; `asks`: how often it requires."""
    wanted = (random_requirement(rng),) if rng.random() < asks else ()
    exclusive = rng.random() < 0.15
    start = rng.choice((*range(len(types)), len(types) // 2)) if types and (depth == 0 or rng.random() < 0.3) else None
    if start is None or rng.random() < 0.2:
        type = rng.choice(
            ("core", "core", "gpu", "memory", "node", "socket") if depth == 0 else ("core",) * 5 + ("gpu",)
        )
        unit = "GB" if type == "memory" and rng.random() < 0.5 else ""
        return Level(type=type, count=Count(rng.choice((1, 1, 2, 3))), unit=unit, exclusive=exclusive, requires=wanted)
    inside = tuple(random_level(rng, types[start + 1 :], depth + 1, asks) for _ in range(rng.choice((1, 1, 1, 2))))
    return Level(
        type=types[start] if rng.random() < 0.93 else "pod",
        count=Count(rng.choice((1, 1, 2, 2, 3))) if rng.random() < 0.8 else Count(1, None),
        shared=rng.random() < 0.5,
        exclusive=exclusive,
        abstract=rng.random() < 0.5,
        requires=wanted,
        inside=inside,
    )


def random_request(rng: Random, graph: Graph, asks: float = 0.08) -> Request:
    """One to three groups, at times with hosts, properties or a requirement of the cluster."""
    groups = tuple(
        Group(levels=tuple(random_level(rng, asks=asks) for _ in range(rng.choice((1, 1, 1, 2)))))
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))
    )
    names = [name for name, type in zip(graph.names, graph.types, strict=True) if type in ("node", "socket", "rack")]
    return Request(
        groups=groups,
        requires=(random_requirement(rng),) if rng.random() < 0.1 else (),
        hosts=tuple(rng.choice(names) for _ in range(2)) if rng.random() < 0.1 else (),
        not_hosts=(rng.choice(names),) if rng.random() < 0.1 else (),
        properties=(rng.choice(("fast", "^fast")),) if rng.random() < 0.1 else (),
    )


def random_marks(rng: Random, graph: Graph) -> dict[str, Mark]:
    """A few vertices down or drained."""
    return {id: rng.choice((Mark.DOWN, Mark.DRAINED, Mark.UP)) for id in graph.ids if rng.random() < 0.08}


def random_use(rng: Random, graph: Graph) -> dict[str, int]:
    """A few vertices used in part or whole."""
    kids = graph.children()
    return {
        id: rng.randint(1, size)
        for id, size, inside in zip(graph.ids, graph.sizes, kids, strict=True)
        if rng.random() < (0.03 if inside else 0.25)
    }


def path_of(graph: Graph, i: int) -> str:
    """The names from the root to vertex `i`, such as `/cluster0/rack0/node3`."""
    above = path_of(graph, graph.parents[i]) if i else ""
    return f"{above}/{graph.names[i] or graph.ids[i]}"
