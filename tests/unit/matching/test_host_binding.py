"""Where a request may run: what binds, what matches and what is placed is what trying everything says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rainbow_sched.graphs.cypher.backend import CypherBackend
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.graph import Graph, Subsystem
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Group, Level, Request, Requirement
from tests.support import graph_builders, oracle
from tests.support.cases import over_seeds

NAMES = {"y": "model"}


def a_case(seed: int) -> tuple[Random, Graph, list[Subsystem], Request, NodeRules]:
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    subsystems = [graph_builders.random_subsystem(rng, graph, name) for name in ("soft", "io")[: rng.randint(1, 2)]]
    request = graph_builders.random_request(rng, graph, asks=0.35)
    if seed % 4 == 0:
        request = Request(groups=(Group(levels=(_part(seed), _part(seed + 1))),))
    told = frozenset({"soft"}) if rng.random() < 0.4 else frozenset[str]()
    if told:  # managers know things by name
        subsystems = [_named(subsystem) for subsystem in subsystems]
        request = replace(
            request,
            groups=tuple(replace(group, levels=tuple(map(_level, group.levels))) for group in request.groups),
            requires=tuple(map(_requirement, request.requires)),
        )
    return rng, graph, subsystems, request, NodeRules(hosts=True, subsystems=told, groups=rng.random() < 0.5)


def _part(seed: int) -> Level:
    """A small part of a group, which often finds room beside another."""
    rng = Random(seed)
    wanted = (graph_builders.random_requirement(rng),) if rng.random() < 0.7 else ()
    core = graph_builders.a_level("core", 1)
    return rng.choice((replace(core, requires=wanted), graph_builders.a_level("node", 1, core, requires=wanted)))


def _named(subsystem: Subsystem) -> Subsystem:
    """The same with `model` for `y`."""
    vertices = [
        replace(vertex, metadata={NAMES.get(key, key): value for key, value in vertex.metadata.items()})
        for vertex in subsystem.vertices
    ]
    return replace(subsystem, vertices=tuple(vertices))


def _level(level: Level) -> Level:
    requires = tuple(map(_requirement, level.requires))
    return replace(level, requires=requires, inside=tuple(map(_level, level.inside)))


def _requirement(asked: Requirement) -> Requirement:
    terms = tuple(term if term.field == "x" else replace(term, field="model") for term in asked.terms)
    return replace(asked, terms=terms, below=tuple(map(_requirement, asked.below)))


def a_backend(graph: Graph, subsystems: list[Subsystem], rules: NodeRules) -> MemoryBackend:
    backend = MemoryBackend()
    backend.put("c", graph)
    backend.set_node_rules("c", rules)
    for subsystem in subsystems:
        backend.put_subsystem("c", subsystem)
    return backend


@over_seeds(800)
def test_a_request_is_bound_to_the_hosts_where_the_manager_cannot_go_wrong(seed: int) -> None:
    _, graph, subsystems, request, rules = a_case(seed)
    found = a_backend(graph, subsystems, rules).binding("c", prepare(request))
    expected = oracle.binding(graph, request, subsystems, rules)
    world = oracle.World(graph)
    if any(level.type not in graph.types and not world.stands_in(level) for level in request.walk()):
        return  # it never fits, and is bound to nothing
    everywhere = {name for name, type in zip(graph.names, graph.types, strict=True) if type == "node"}
    assert bool(found.impossible) is any(not part for parts in expected.values() for part in parts)
    if not found.impossible:
        bound = {group: set().union(*parts) for group, parts in expected.items()}
        assert {entry.group: set(entry.hosts) for entry in found.hosts} == {
            group: hosts for group, hosts in bound.items() if hosts != everywhere
        }
    parts = [frozenset(part) for group in expected.values() for part in group]
    assert found.uniform is (len(set(parts)) <= 1)
    assert found.by_group is all(len(set(map(frozenset, group))) == 1 for group in expected.values())


@over_seeds(800)
def test_a_request_fits_exactly_where_its_binding_leaves_room(seed: int) -> None:
    rng, graph, subsystems, request, rules = a_case(seed)
    marks, used = graph_builders.random_marks(rng, graph), graph_builders.random_use(rng, graph)
    backend = a_backend(graph, subsystems, rules)
    backend.match(prepare(request))  # kept, and repaired after each change
    backend.mark("c", marks)
    backend.use("c", used)
    ever = oracle.fits(graph, request, subsystems, now=False, rules=rules)
    now = oracle.fits(graph, request, subsystems, marks, used, rules=rules)
    found = backend.match(prepare(request)).fit("c")
    if ever is not None and now is not None:
        assert found is (Fit.NOW if now else Fit.LATER if ever else Fit.NEVER)
    [explained] = backend.explain(prepare(request))
    assert explained.verdict.fit is found
    assert bool(explained.reasons) is (found is not Fit.NOW)


@over_seeds(800)
def test_what_is_placed_lies_within_the_binding(seed: int) -> None:
    _, graph, subsystems, request, rules = a_case(seed)
    backend = a_backend(graph, subsystems, rules)
    binding = backend.binding("c", prepare(request))
    if not backend.place("c", "job", prepare(request)):
        return
    assert not binding.impossible
    allowed = {entry.group: set(entry.hosts) for entry in binding.hosts}
    world = oracle.World(graph, subsystems, rules=rules)
    taken = backend._states["c"].placed["job"]
    hosts = {graph.names[h] for i in taken for h in world.path(i) if graph.types[h] == "node"}
    alone_in = any(level.exclusive and level.type != "node" for level in request.walk())  # what others may not use
    if len(request.groups) == len(allowed) and not alone_in:
        assert hosts <= set().union(*allowed.values())
    expected = oracle.binding(graph, request, subsystems, rules)
    for entry in backend.concrete_hosts("c", prepare(request), "job"):
        assert all(set(entry.hosts) <= part for part in expected.get(entry.group, ())), "whichever part gets a host"


DATABASE = CypherBackend()


@over_seeds(40)
def test_the_database_gives_the_same_answers(seed: int) -> None:
    _, graph, subsystems, request, rules = a_case(seed)
    memory = a_backend(graph, subsystems, rules)
    DATABASE.put("c", graph)
    DATABASE.set_node_rules("c", rules)
    for subsystem in subsystems:
        DATABASE.put_subsystem("c", subsystem)
    assert DATABASE.binding("c", prepare(request)) == memory.binding("c", prepare(request))
    assert DATABASE.place("c", "job", prepare(request)) is memory.place("c", "job", prepare(request))
    assert DATABASE.concrete_hosts("c", prepare(request), "job") == memory.concrete_hosts("c", prepare(request), "job")
    assert list(DATABASE.match(prepare(request))) == list(memory.match(prepare(request)))
    found = [[each.to_json() for each in backend.explain(prepare(request))] for backend in (DATABASE, memory)]
    assert found[0] == found[1]
