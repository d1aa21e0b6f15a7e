"""The quick way to place takes the very vertices that the general way takes, whatever came before."""

from __future__ import annotations

from random import Random

import pytest

from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.fit import hints, quick_placement
from rainbow_sched.matching.fit.levels import Planner
from rainbow_sched.matching.fit.placement import Placement, place
from rainbow_sched.matching.fit.quick_placement import Anywhere, Quick, read_quick
from rainbow_sched.matching.structure import hierarchy
from rainbow_sched.model.graph import Graph, Mark, Vertex
from rainbow_sched.model.request import Level, Request
from tests.support import graph_builders
from tests.support.cases import over_seeds


def the_quick_form(backend: MemoryBackend, request: Request) -> Quick | Anywhere | None:
    structure = backend._states["c"].fold.structure  # the vertices themselves are not shown outside
    return read_quick(Planner(request).plan(structure.units), structure)


def generally(backend: MemoryBackend, request: Request) -> Placement:
    """What the general way would take now, looking at every host."""
    state = backend._states["c"]
    plan = Planner(request).plan(state.fold.structure.units)
    return place(state.fold, plan, backend._facts, state.taken.column(), state.unavailable)


def a_graph(rng: Random) -> Graph:
    """Nodes, at times inside nodes, with leaves of one unit and counted ones, some too large for a byte."""
    vertices = [Vertex(id="0", type="cluster")]
    edges: list[tuple[str, str]] = []

    def add(parent: str, type: str, size: int = 1, unit: str = "") -> str:
        id = str(len(vertices))
        vertices.append(Vertex(id=id, type=type, size=size, unit=unit))
        edges.append((parent, id))
        return id

    most, nodes = rng.choice((1, 1, 4)), ["0"]
    for _ in range(rng.randint(1, 5)):
        node = add(rng.choice(nodes) if rng.random() < 0.15 else "0", "node")
        nodes.append(node)
        for holder in [add(node, "socket") for _ in range(rng.choice((0, 0, 1, 2)))] or [node]:
            for _ in range(rng.randint(0, 4)):
                add(holder, "core", rng.randint(1, most))
            for _ in range(rng.choice((0, 0, 1, 2))):
                add(holder, "gpu")
        if rng.random() < 0.5:
            add(node, "memory", rng.choice((2, 600)), rng.choice(("GB", "GB", "GB", "MB")))
    rng.shuffle(edges)
    return Graph.build(vertices, edges)


def a_request(rng: Random) -> Request:
    """Slots of leaves inside hosts, with levels that the cluster lacks around the host or inside it."""
    leaves = [graph_builders.a_level("core", rng.randint(1, 3))]
    if rng.random() < 0.4:
        leaves.append(graph_builders.a_level("gpu", rng.randint(1, 2)))
    if rng.random() < 0.3:
        leaves.append(graph_builders.a_level("memory", rng.choice((1, 300)), unit=rng.choice(("GB", "MB", ""))))
    rng.shuffle(leaves)

    def slot(*inside: Level) -> Level:
        return graph_builders.a_level("slot", rng.choice((1, 1, 2)), *inside, abstract=True)

    inside = (
        (slot(*leaves),) if rng.random() < 0.3 else (slot(leaves[0]), *leaves[1:]) if rng.random() < 0.3 else leaves
    )
    host = rng.choice(("node", "node", "socket", "", "core"))
    if host == "core":
        level = rng.choice(leaves)
    elif host:
        level = graph_builders.a_level(host, rng.choice((1, 1, 2, 3)), *inside, shared=rng.random() < 0.4)
    else:
        level = slot(*inside)
    while rng.random() < 0.25:
        level = slot(level)
    return graph_builders.a_request(level)


@over_seeds(500)
def test_the_quick_way_takes_what_the_general_way_takes(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hints, "MAX_RETURNED", seed % 5)
        patch.setattr(quick_placement, "MIN_RANGE", 2 + seed % 2)
        patch.setattr(hints, "MAX_HINTS_PER_TYPE", 1 + seed % 3)
        patch.setattr(hierarchy, "MAX_CACHED_HOSTS", 1 + seed % 7)
        check_places(Random(seed))


def check_places(rng: Random) -> None:
    graph = a_graph(rng)
    backend = MemoryBackend()
    backend.put("c", graph)
    requests = [a_request(rng) for _ in range(3)]
    for number in range(14):
        kind = rng.random()
        if kind < 0.7:
            request = rng.choice(requests)
            expected = generally(backend, request)
            assert backend.place("c", f"job{number}", prepare(request)) == expected.complete
            assert backend._states["c"].placed[f"job{number}"] == expected.taken
        elif kind < 0.8:
            backend.release("c", f"job{rng.randrange(number + 1)}")
        elif kind < 0.93:
            host = rng.choice([id for id, type in zip(graph.ids, graph.types, strict=True) if type == "node"][:2])
            backend.mark("c", {**graph_builders.random_marks(rng, graph), host: rng.choice((Mark.DOWN, Mark.UP))})
        else:
            backend.use("c", graph_builders.random_use(rng, graph))


def test_most_of_those_requests_are_placed_the_quick_way() -> None:
    rng, quick = Random(1), 0
    for _ in range(200):
        backend = MemoryBackend()
        backend.put("c", a_graph(rng))
        quick += the_quick_form(backend, a_request(rng)) is not None
    assert quick > 80


@pytest.mark.parametrize(
    "level",
    [
        graph_builders.a_level("node", 1, graph_builders.a_level("core", 2), exclusive=True),
        graph_builders.a_level("node", 1, graph_builders.a_level("core", 2, exclusive=True)),
        graph_builders.a_level(
            "node", 1, graph_builders.a_level("core", 2), requires=graph_builders.requires("soft", "x", 1)
        ),
        graph_builders.a_level("node", 1, graph_builders.a_level("core", 2), graph_builders.a_level("core", 1)),
        graph_builders.a_level("cluster", 1, graph_builders.a_level("core", 2)),
        graph_builders.a_level("node", 1, graph_builders.a_level("socket", 1)),
        graph_builders.a_level("node", 1, graph_builders.a_level("socket", 1, graph_builders.a_level("core", 1))),
        graph_builders.a_level("core", 2, exclusive=True),
    ],
)
def test_what_says_more_is_left_to_the_general_way(level: Level) -> None:
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=2, cores=4, sockets=2))
    assert the_quick_form(backend, graph_builders.a_request(level)) is None
    assert (
        the_quick_form(backend, graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", 2))))
        is not None
    )


@pytest.mark.parametrize("rest", [{"hosts": ("node0",)}, {"not_hosts": ("node0",)}, {"properties": ("fast",)}])
def test_named_hosts_and_properties_are_left_to_the_general_way(rest: dict[str, tuple[str, ...]]) -> None:
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=2, cores=4))
    request = graph_builders.a_request(graph_builders.slots(1, graph_builders.a_level("core", 2)), **rest)
    assert the_quick_form(backend, request) is None


def test_a_cluster_that_is_one_core_has_none_inside_it() -> None:
    backend = MemoryBackend()
    backend.put("c", Graph.build([Vertex(id="0", type="core")], []))
    request = graph_builders.a_request(
        graph_builders.a_level("slot", 1, graph_builders.a_level("core", 1), abstract=True)
    )
    assert not backend.place("c", "job", prepare(request))


def test_each_slot_takes_whole_units_of_its_own() -> None:
    backend = MemoryBackend()
    backend.put("c", graph_builders.a_graph(nodes=1, cores=1, memory=4))
    slot = graph_builders.a_level("slot", 2, graph_builders.a_level("memory", 300, unit="MB"), abstract=True)
    backend.place("c", "job", prepare(graph_builders.a_request(graph_builders.a_level("node", 1, slot))))
    assert list(backend._states["c"].placed["job"].values()) == [2]  # of a vertex that counts in GB


def test_what_comes_back_in_a_host_inside_a_host_is_found_in_both() -> None:
    vertices = [Vertex(id="0", type="cluster"), Vertex(id="outer", type="node"), Vertex(id="inner", type="node")]
    vertices += [Vertex(id=id, type="core") for id in ("first", "second")]
    edges = [("0", "outer"), ("outer", "first"), ("outer", "inner"), ("inner", "second")]
    backend = MemoryBackend()
    backend.put("c", Graph.build(vertices, edges))
    one, both = (
        graph_builders.a_request(graph_builders.a_level("node", 1, graph_builders.a_level("core", cores)))
        for cores in (1, 2)
    )
    for job in ("a", "b"):
        assert backend.place("c", job, prepare(one))
    backend.release("c", "a")
    assert not backend.place("c", "both", prepare(both))
    backend.release("c", "b")
    assert backend.place("c", "both at last", prepare(both))
