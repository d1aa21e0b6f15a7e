"""Reasons and changes: every no has a reason, and every change that is offered makes the request fit."""

from __future__ import annotations

import json
from random import Random

import pytest

from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.match import Explanation, Fit
from rainbow_sched.model.request import Equals, Requirement, Within
from tests.support import graph_builders, oracle
from tests.support.cases import over_seeds
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, requires, slots


def explained(graph, request, subsystems=(), marks=None, used=None) -> Explanation:
    backend = MemoryBackend()
    backend.put("c", graph)
    for subsystem in subsystems:
        backend.put_subsystem("c", subsystem)
    backend.mark("c", marks or {})
    backend.use("c", used or {})
    [found] = backend.explain(prepare(request))
    return found


@over_seeds(150)
def test_every_change_that_is_offered_makes_the_request_fit(seed):
    rng = Random(seed)
    graph = graph_builders.random_graph(rng)
    subsystems = [graph_builders.random_subsystem(rng, graph)]
    request = graph_builders.random_request(rng, graph)
    marks, used = graph_builders.random_marks(rng, graph), graph_builders.random_use(rng, graph)
    found = explained(graph, request, subsystems, marks, used)
    fit = found.verdict.fit
    assert bool(found.reasons) is (fit is not Fit.NOW)
    for reason in found.reasons:
        assert reason.sentence()
    for change in found.changes:
        changed = change.apply(request)
        assert oracle.fits(graph, changed, subsystems, marks, used, now=fit is Fit.LATER) in (True, None)
    assert json.loads(json.dumps(found.to_json()))["fit"] == fit.value


GPUS = a_graph(nodes=3, cores=8, gpus=2)


@pytest.mark.parametrize(
    ("request_", "sentence", "change"),
    [
        (
            a_request(slots(1, a_level("core", 1), a_level("gpu", 4))),
            "gpu: 4 needed in one node, 2 at most (node node0, node1 and 1 more)",
            "gpu 2 instead of 4",
        ),
        (a_request(a_level("node", 4, a_level("core", 1))), "node: 4 needed, 3 at most", "-N 3"),
        (
            a_request(a_level("node", 4)),
            "node: 4 needed, 3 at most",
            "-N 3",
        ),
        (
            a_request(slots(1, a_level("fpga", 1), a_level("core", 1))),
            "fpga: there is none in this cluster (it has cluster, core, gpu, node)",
            "drop fpga 1",
        ),
        (
            a_request(slots(1, a_level("core", 1), requires=requires("gpu", "model", "h100"))),
            "gpu model = h100 on node: found a100",
            "gpu model a100 instead of h100",
        ),
        (
            a_request(slots(1, a_level("core", 1), requires=(Requirement("software", (Within("version", "2024"),)),))),
            "software version >= 2024 on node: found 2023.8",
            "software version >= 2023.8 instead of 2024",
        ),
        (
            a_request(slots(1, a_level("core", 1), requires=requires("licence", "name", "x"))),
            "licence name = x on node: the cluster has no such subsystem",
            "drop licence name = x",
        ),
        (
            a_request(slots(4, a_level("core", 1), exclusive=True)),
            "node (exclusive): 4 needed that hold everything requested, 3 do",
            "-N 3",
        ),
    ],
)
def test_a_no_says_what_is_missing_and_what_would_fit(request_, sentence, change):
    subsystems = [
        a_subsystem(GPUS, "gpu", {"node0": {"model": "a100"}}),
        a_subsystem(GPUS, "software", {"node1": {"version": "2023.8"}}),
    ]
    found = explained(GPUS, request_, subsystems)
    assert found.verdict.fit is Fit.NEVER
    assert found.reasons[0].sentence() == sentence
    assert change in [offered.sentence() for offered in found.changes]


def test_not_now_is_told_apart_from_never():
    found = explained(
        a_graph(nodes=2, cores=4),
        a_request(slots(2, a_level("core", 4))),
        marks={"node0": Mark.DOWN},
        used={"node1-core": 1},
    )
    assert found.verdict.fit is Fit.LATER
    assert found.reasons[0].when == "not now"
    assert "free now" in found.reasons[0].sentence()


def test_groups_that_fit_alone_but_not_together_are_said_to_compete():
    found = explained(a_graph(nodes=1, cores=4), a_request(slots(1, a_level("core", 3)), slots(1, a_level("core", 2))))
    assert found.reasons[0].sentence() == "groups 1 and 2 fit alone, but not together: they compete over core"


def test_what_fits_says_where_its_requirements_are_met():
    graph = a_graph(nodes=4)
    subsystem = a_subsystem(graph, "soft", {"node0,node1,node3": {"name": "gcc"}})
    found = explained(
        graph, a_request(slots(1, a_level("core", 1), requires=requires("soft", "name", "gcc"))), [subsystem]
    )
    assert [met.sentence() for met in found.met] == ["soft name = gcc on node: node0, node1 and 1 more"]
    assert (found.verdict.slots_now, found.verdict.slots_ever) == (12, 12)


def test_two_changes_are_offered_when_one_is_not_enough():
    graph = a_graph(nodes=1, cores=4)
    request = a_request(slots(1, a_level("core", 8), requires=(Requirement("x", (Equals("y", 1),)),)))
    [change] = explained(graph, request).changes
    assert change.sentence() == "drop x y = 1 and core 4 instead of 8"
    assert oracle.fits(graph, change.apply(request), now=False)
    assert change.to_json()["then"] == change.then.to_json()
