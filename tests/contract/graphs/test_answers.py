"""Every backend gives these answers: each case is one rule of the semantics."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.graph import Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Count, Equals, Level, Request, Requirement, Runs, Within
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, requires, slots

NOW, LATER, NEVER = Fit.NOW, Fit.LATER, Fit.NEVER


@dataclass(frozen=True)
class Case:
    request: Request
    expected: Fit
    graph: Graph = field(default_factory=lambda: a_graph(nodes=2, cores=4))
    hung: tuple[tuple[str, dict[str, dict[str, object]]], ...] = ()
    marks: dict[str, Mark] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


def core(count: int, **rest: object) -> Level:
    return a_level("core", count, **rest)


def gpu(count: int, **rest: object) -> Level:
    return a_level("gpu", count, **rest)


def wants(requirement: Requirement, **rest: object) -> Request:
    return a_request(slots(1, core(1), requires=(requirement,)), **rest)


SOFT = ("soft", {"node0": {"name": "gcc", "version": "12.2.0"}, "node1": {"name": "gcc", "version": "9.4.0"}})
LAMMPS = ("soft", {"node0": {"name": "lammps", "version": "2021"}, "root": {"name": "gromacs", "version": "2024"}})
SOCKETS = a_graph(nodes=1, cores=8, sockets=2)
RACKS = a_graph(nodes=4, cores=4, racks=2)

CASES: dict[str, Case] = {
    "slots share a host": Case(a_request(slots(4, core(2))), NOW),
    "a slot is never assembled from two hosts": Case(a_request(slots(1, core(5))), NEVER),
    "what is left over in two hosts is no slot": Case(a_request(slots(3, core(3))), NEVER),
    "distinct nodes are distinct": Case(a_request(a_level("node", 3, core(1))), NEVER),
    "distinct nodes that are there fit": Case(a_request(a_level("node", 2, core(4))), NOW),
    "counts multiply down": Case(a_request(a_level("rack", 2, a_level("node", 2, core(4)))), NOW, RACKS),
    "counts multiply down and too much is too much": Case(
        a_request(a_level("rack", 1, a_level("node", 3, core(1)))), NEVER, RACKS
    ),
    "a leaf at the top is taken anywhere": Case(a_request(core(8)), NOW),
    "a leaf at the top is counted once": Case(a_request(core(9)), NEVER),
    "whole nodes are taken as leaves": Case(a_request(a_level("node", 2)), NOW),
    "a whole node and a core in the other": Case(a_request(a_level("node", 1), core(4)), NOW),
    "a whole node's cores are not there for others": Case(a_request(a_level("node", 1), core(5)), NEVER),
    "a partly used node is not taken whole": Case(a_request(a_level("node", 2)), LATER, used={"node0-core": 1}),
    "groups do not count anything twice": Case(a_request(slots(1, core(4)), slots(1, core(4)), core(1)), NEVER),
    "groups fit together": Case(a_request(slots(1, core(3)), slots(1, core(3)), slots(2, core(1))), NOW),
    "groups that only fit by a clever choice fit": Case(
        a_request(slots(2, core(1)), slots(1, core(3), requires=requires("soft", "version", "9.4.0"))),
        NOW,
        a_graph(nodes=2, cores=3),
        (("soft", {"node1": {"version": "9.4.0"}}),),
        used={"node0-core": 1},
    ),
    "two sockets of a node are two": Case(a_request(slots(1, a_level("socket", 2, core(4)))), NOW, SOCKETS),
    "a socket has no more cores than it has": Case(a_request(slots(1, a_level("socket", 1, core(5)))), NEVER, SOCKETS),
    "slots spread over sockets": Case(a_request(slots(2, a_level("socket", 2, core(2)))), NOW, SOCKETS),
    "an exclusive host is not shared": Case(a_request(slots(3, core(1), exclusive=True)), NEVER),
    "an exclusive host is free of others": Case(
        a_request(slots(2, core(1), exclusive=True)), LATER, used={"node1-core": 1}
    ),
    "an exclusive host does not mind what is down in it": Case(
        a_request(slots(1, core(1), exclusive=True)),
        NOW,
        a_graph(nodes=1, cores=4, gpus=1),
        marks={"node0-gpu": Mark.DOWN},
    ),
    "an exclusive leaf takes the whole vertex": Case(a_request(core(1, exclusive=True), core(5)), NEVER),
    "memory is asked for in any unit": Case(
        a_request(slots(1, Level(type="memory", count=Count(7812), unit="MiB"))), NOW, a_graph(memory=8 + 1)
    ),
    "memory that is not there": Case(
        a_request(slots(1, Level(type="memory", count=Count(9), unit="GiB"))), NEVER, a_graph(memory=9)
    ),
    "memory without a unit is in the graph's": Case(a_request(slots(1, a_level("memory", 9))), NOW, a_graph(memory=9)),
    "a requirement holds at the host": Case(
        a_request(slots(2, core(2), requires=requires("soft", "version", "12.2.0"))), NOW, hung=(SOFT,)
    ),
    "only hosts that meet it count": Case(
        a_request(slots(3, core(2), requires=requires("soft", "version", "12.2.0"))), NEVER, hung=(SOFT,)
    ),
    "versions have an order": Case(wants(Requirement("soft", (Within("version", "10"),))), NOW, hung=(SOFT,)),
    "a prerelease comes before its release": Case(
        wants(Requirement("soft", (Within("version", "12.2.0"),))),
        NEVER,
        hung=(("soft", {"root": {"version": "12.2.0-rc1"}}),),
    ),
    "a word is not at least a version": Case(
        wants(Requirement("soft", (Within("value", "11.4.0"),))), NEVER, hung=(("soft", {"root": {"value": "gcc"}}),)
    ),
    "a word is not at most a version": Case(
        wants(Requirement("soft", (Within("value", None, "11.4.0"),))),
        NEVER,
        hung=(("soft", {"root": {"value": "gcc"}}),),
    ),
    "the vertex beside it with the version counts": Case(
        wants(Requirement("soft", (Within("value", "11.4.0"),))),
        NOW,
        hung=(("soft", {"node0": {"value": "gcc"}, "node1": {"value": "12.3.0"}}),),
    ),
    "true is not at least a number": Case(
        wants(Requirement("soft", (Within("value", 0),))), NEVER, hung=(("soft", {"root": {"value": True}}),)
    ),
    "a number below zero is no version": Case(
        wants(Requirement("soft", (Within("value", None, "5"),))), NEVER, hung=(("soft", {"root": {"value": -3}}),)
    ),
    "a number below zero is a number": Case(
        wants(Requirement("soft", (Within("value", -5, 0),))), NOW, hung=(("soft", {"root": {"value": -3}}),)
    ),
    "a version is not at least a number below zero": Case(
        wants(Requirement("soft", (Within("value", -5),))), NEVER, hung=(("soft", {"root": {"value": "3"}}),)
    ),
    "a v before a version means nothing": Case(
        wants(Requirement("soft", (Within("value", "13"),))), NEVER, hung=(("soft", {"root": {"value": "v12rc"}}),)
    ),
    "a stored bound that is a word is met by nothing": Case(
        wants(Requirement("soft", (Within("value", "gcc"),))), NEVER, hung=(("soft", {"root": {"value": "gcc"}}),)
    ),
    "a range has two ends": Case(wants(Requirement("soft", (Within("version", "9.5", "12.1"),))), NEVER, hung=(SOFT,)),
    "numbers compare as numbers": Case(
        wants(Requirement("soft", (Within("speed", 0.25, 0.6),))), NOW, hung=(("soft", {"root": {"speed": 0.5}}),)
    ),
    "text five is five": Case(
        wants(Requirement("soft", (Equals("n", "5"),))), NOW, hung=(("soft", {"root": {"n": 5}}),)
    ),
    "one and true are two things": Case(
        wants(Requirement("soft", (Equals("n", True),))), NEVER, hung=(("soft", {"root": {"n": 1}}),)
    ),
    "two entries may be met by two vertices": Case(
        a_request(
            slots(
                1,
                core(1),
                requires=(*requires("soft", "name", "lammps"), Requirement("soft", (Within("version", "2024"),))),
            )
        ),
        NOW,
        hung=(LAMMPS,),
    ),
    "terms of one entry are met by one vertex": Case(
        wants(Requirement("soft", (Equals("name", "lammps"), Within("version", "2024")))), NEVER, hung=(LAMMPS,)
    ),
    "what hangs on a rack speaks for all below": Case(
        a_request(slots(2, core(4), requires=requires("soft", "name", "x"))),
        NOW,
        RACKS,
        (("soft", {"rack0": {"name": "x"}}),),
    ),
    "and for nothing else": Case(
        a_request(slots(3, core(4), requires=requires("soft", "name", "x"))),
        NEVER,
        RACKS,
        (("soft", {"rack0": {"name": "x"}}),),
    ),
    "a level above the slot has requirements": Case(
        a_request(a_level("rack", 1, slots(2, core(4)), requires=requires("soft", "name", "x"))),
        NEVER,
        RACKS,
        (("soft", {"node0": {"name": "x"}}),),
    ),
    "the cluster as a whole has requirements": Case(
        a_request(core(1), requires=requires("soft", "name", "x")), NEVER, hung=(("soft", {"node0": {"name": "x"}}),)
    ),
    "a leaf's requirement holds where it is taken": Case(
        a_request(slots(1, gpu(1, requires=requires("kind", "model", "a100")))),
        NOW,
        a_graph(gpus=1),
        (("kind", {"node1-gpu": {"model": "a100"}}),),
    ),
    "a descendant runs what was built for its ancestor": Case(
        wants(Requirement("arch", (Runs("target", "x86_64_v2"),))), NOW, hung=(("arch", {"root": {"target": "zen3"}}),)
    ),
    "an ancestor does not run a descendant's code": Case(
        wants(Requirement("arch", (Runs("target", "zen3"),))),
        NEVER,
        hung=(("arch", {"root": {"target": "x86_64_v2"}}),),
    ),
    "a host type that is not there is an abstraction": Case(
        a_request(slots(2, core(3), host="pod", abstract=True)), NOW
    ),
    "a missing type that is no abstraction never fits": Case(a_request(slots(2, core(3), host="pod")), NEVER),
    "an abstraction has no requirements": Case(
        a_request(slots(1, core(1), host="pod", abstract=True, requires=requires("soft", "x", 1))), NEVER
    ),
    "a range fits when its least fits": Case(
        a_request(Level(type="node", count=Count(2, 9), inside=(core(1),), shared=True)), NOW
    ),
    "only named hosts are used": Case(a_request(slots(2, core(4)), hosts=("node1",)), NEVER),
    "a named host is used": Case(a_request(slots(1, core(4)), hosts=("node1", "elsewhere")), NOW),
    "excluded hosts are not used": Case(a_request(slots(2, core(4)), not_hosts=("node0",)), NEVER),
    "hosts carry the asked properties": Case(
        a_request(slots(2, core(4)), properties=("fast",)), NEVER, a_graph(properties={1: ["fast"]})
    ),
    "hosts do not carry the barred properties": Case(
        a_request(slots(1, core(4)), properties=("^fast",)), NOW, a_graph(properties={1: ["fast"]})
    ),
    "what is down is later": Case(a_request(slots(2, core(4))), LATER, marks={"node0": Mark.DOWN}),
    "what is drained is later": Case(a_request(slots(2, core(4))), LATER, marks={"node0": Mark.DRAINED}),
    "a mark holds for all below": Case(a_request(core(1)), LATER, RACKS, marks={"root": Mark.DRAINED}),
    "what is up again is now": Case(a_request(slots(2, core(4))), NOW, marks={"node0": Mark.UP}),
    "what is used is later": Case(a_request(slots(2, core(4))), LATER, used={"node1-core": 1}),
    "what is left of a used vertex is now": Case(a_request(slots(1, core(3))), NOW, used={"node1-core": 1, "node0": 1}),
    "a used vertex with things inside is used whole": Case(a_request(core(5)), LATER, used={"node0": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_backend_gives_the_same_answer(backend: GraphBackend, name: str) -> None:
    case = CASES[name]
    backend.put("c", case.graph)
    for subsystem, hung in case.hung:
        backend.put_subsystem("c", a_subsystem(case.graph, subsystem, hung))
    backend.mark("c", case.marks)
    backend.use("c", case.used)
    assert backend.match(prepare(case.request)).fit("c") is case.expected
    [explanation] = backend.explain(prepare(case.request))
    assert explanation.verdict.fit is case.expected
    assert bool(explanation.reasons) is (case.expected is not NOW)


def test_a_tree_of_requirements_ties_what_is_below_to_what_is_above(backend: GraphBackend) -> None:
    graph = a_graph()
    vertices = [
        Vertex(id=id, type="pkg", metadata={"name": name}) for id, name in (("a", "mpi"), ("b", "ucx"), ("c", "ofi"))
    ]
    tree = Subsystem.build("soft", graph.ids, vertices, [("node0", "a"), ("a", "b"), ("node0", "c")])
    backend.put("x", graph)
    backend.put_subsystem("x", tree)
    for inner, expected in (("ucx", NOW), ("ofi", NEVER)):
        below = Requirement("soft", (Equals("name", inner),))
        assert (
            backend.match(prepare(wants(Requirement("soft", (Equals("name", "mpi"),), (below,))))).fit("x") is expected
        )
