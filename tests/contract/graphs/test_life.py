"""What every backend promises about registering, changing and forgetting clusters."""

from __future__ import annotations

import pytest

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.match import Fit
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, requires, slots

FOUR_CORES = a_request(slots(1, a_level("core", 4)))
WITH_GCC = a_request(slots(1, a_level("core", 1), requires=requires("soft", "name", "gcc")))


def test_a_fleet_answers_by_name_in_a_fixed_order(backend: GraphBackend) -> None:
    for name, cores in (("west", 2), ("east", 4), ("north", 8)):
        backend.put(name, a_graph(cores=cores))
    backend.use("north", {"node0": 1, "node1": 1})
    matches = backend.match(prepare(FOUR_CORES))
    assert matches.names == ("east", "north", "west")
    assert matches.now == ("east",)
    assert matches.ever == ("east", "north")
    assert [verdict.fit for verdict in matches] == [Fit.NOW, Fit.LATER, Fit.NEVER]
    assert backend.match(prepare(FOUR_CORES), ["west"]).names == ("west",)


def test_slots_are_counted_now_and_ever(backend: GraphBackend) -> None:
    backend.put("c", a_graph(nodes=3, cores=8))
    backend.use("c", {"node0-core": 5, "node1": 1})
    verdict = backend.match(prepare(a_request(slots(2, a_level("core", 3))))).verdict("c")
    assert (verdict.slots_now, verdict.slots_ever) == (3, 6)


def test_a_deleted_subsystem_leaves_nothing_behind(backend: GraphBackend) -> None:
    graph = a_graph()
    backend.put("c", graph)
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"node0": {"name": "gcc"}}))
    assert backend.match(prepare(WITH_GCC)).now == ("c",)
    backend.drop_subsystem("c", "soft")
    assert backend.match(prepare(WITH_GCC)).ever == ()
    with pytest.raises(NotFound):
        backend.drop_subsystem("c", "soft")


def test_a_new_subsystem_of_the_same_name_replaces_the_old(backend: GraphBackend) -> None:
    graph = a_graph()
    backend.put("c", graph)
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"node0": {"name": "gcc"}}))
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"node0": {"name": "clang"}}))
    assert backend.match(prepare(WITH_GCC)).ever == ()


def test_a_removed_name_inherits_nothing(backend: GraphBackend) -> None:
    graph = a_graph()
    backend.put("c", graph)
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"node0": {"name": "gcc"}}))
    backend.mark("c", {"node0": Mark.DOWN})
    assert backend.match(prepare(FOUR_CORES)).now == ("c",)
    backend.remove("c")
    assert backend.match(prepare(FOUR_CORES)).names == ()
    backend.put("c", graph)
    assert backend.match(prepare(WITH_GCC)).ever == ()
    assert backend.match(prepare(a_request(slots(2, a_level("core", 4))))).now == ("c",)


def test_state_survives_a_new_subsystem(backend: GraphBackend) -> None:
    graph = a_graph(nodes=1)
    backend.put("c", graph)
    backend.mark("c", {"node0": Mark.DRAINED})
    backend.put_subsystem("c", a_subsystem(graph, "soft", {"root": {"name": "gcc"}}))
    assert backend.match(prepare(WITH_GCC)).fit("c") is Fit.LATER


def test_a_placed_job_takes_its_part_until_it_is_released(backend: GraphBackend) -> None:
    backend.put("c", a_graph(nodes=2, cores=4))
    assert backend.place("c", "job-1", prepare(FOUR_CORES))
    assert backend.match(prepare(a_request(slots(2, a_level("core", 4))))).fit("c") is Fit.LATER
    assert backend.match(prepare(FOUR_CORES)).fit("c") is Fit.NOW
    assert backend.place("c", "job-2", prepare(FOUR_CORES))
    assert not backend.place("c", "job-3", prepare(FOUR_CORES))
    backend.release("c", "job-1")
    backend.release("c", "never placed")
    assert backend.match(prepare(FOUR_CORES)).fit("c") is Fit.NOW


def test_an_exclusive_job_keeps_its_whole_host(backend: GraphBackend) -> None:
    backend.put("c", a_graph(nodes=1, cores=4))
    backend.place("c", "job", prepare(a_request(slots(1, a_level("core", 1), exclusive=True))))
    assert backend.match(prepare(a_request(a_level("core", 1)))).fit("c") is Fit.LATER


def test_a_new_report_replaces_the_old_one(backend: GraphBackend) -> None:
    backend.put("c", a_graph(nodes=1, cores=4))
    backend.use("c", {"node0-core": 1})
    assert backend.match(prepare(FOUR_CORES)).fit("c") is Fit.LATER
    backend.use("c", {})
    assert backend.match(prepare(FOUR_CORES)).fit("c") is Fit.NOW


def test_versions_grow_with_every_change(backend: GraphBackend) -> None:
    backend.put("a", a_graph())
    backend.put("b", a_graph())
    before = backend.version
    backend.mark("a", {"node0": Mark.DOWN})
    assert backend.version > before


def test_a_summary_counts_what_is_there_and_what_is_free(backend: GraphBackend) -> None:
    backend.put("c", a_graph(nodes=2, cores=4, memory=8))
    backend.use("c", {"node0-core": 3})
    backend.mark("c", {"node1": Mark.DOWN})
    totals = backend.summary("c").totals
    assert (totals["core"].vertices, totals["core"].size, totals["core"].free) == (2, 8, 1)
    assert (totals["memory"].size, totals["memory"].unit) == (16 * 10**9, "B")


def test_unknown_names_are_refused_by_name(backend: GraphBackend) -> None:
    backend.put("c", a_graph())
    for call in (
        lambda: backend.remove("nowhere"),
        lambda: backend.mark("c", {"nothing": Mark.DOWN}),
        lambda: backend.use("c", {"nothing": 1}),
        lambda: backend.match(prepare(FOUR_CORES), ["nowhere"]),
    ):
        with pytest.raises(NotFound, match=r"nowhere|nothing"):
            call()
