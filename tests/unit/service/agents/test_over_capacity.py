"""Attempts that were given to a full cluster stand in line, however many they are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.backend import open_backend
from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.service.clusters.fleet import Fleet
from tests.support.service import a_graph, a_request

CORES = 8
SHAPES = [prepare(a_request(cores=cores)) for cores in (1, 2, 3)]


def a_fleet() -> Fleet:
    fleet = Fleet(open_backend("memory", {}))
    fleet.add(Cluster(id=1, name="east", registered_at=0.0), read(a_graph(nodes=1, cores=CORES)), ())
    return fleet


def free(fleet: Fleet) -> int:
    """How many single cores a job would still find."""
    for cores in range(CORES, 0, -1):
        if "east" in fleet.graphs.match(prepare(a_request(cores=cores))).now:
            return cores
    return 0


def cores(request: PreparedRequest) -> int:
    return int(request.request.groups[0].levels[0].inside[0].count.min)


def test_who_waits_moves_up_and_who_has_left_is_passed_over() -> None:
    fleet = a_fleet()
    for number in range(12):
        fleet.place("east", f"f{number}", SHAPES[0], "ana")
    [line] = fleet.member("east").overcommitted.values()
    assert list(line.fences) == ["f8", "f9", "f10", "f11"]
    fleet.release("east", "f9")
    fleet.release("east", "f0")
    fleet.release("east", "f1")
    assert list(line.fences) == ["f11"], "f8 and f10 have their core now, and f9 has left"
    assert free(fleet) == 0
    for fence in list(fleet.member("east").placements):
        fleet.release("east", fence)
    assert (free(fleet), fleet.member("east").overcommitted) == (CORES, {})


@given(st.lists(st.tuples(st.sampled_from(range(len(SHAPES))), st.booleans(), st.integers(0, 30)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_nothing_is_free_that_somebody_in_line_could_use(steps: list[tuple[int, bool, int]]) -> None:
    fleet = a_fleet()
    for number, (shape, leaves, which) in enumerate(steps):
        there = list(fleet.member("east").placements)
        if leaves and there:
            fleet.release("east", there[which % len(there)])
        else:
            fleet.place("east", f"f{number}", SHAPES[shape], "ana")
        member = fleet.member("east")
        waiting = {
            fence for line in member.overcommitted.values() for fence in line.fences if fence in member.placements
        }
        held = sum(cores(request) for fence, request in member.placements.items() if fence not in waiting)
        assert held <= CORES
        if not waiting:
            assert free(fleet) == CORES - held
        assert all(cores(line.request) > free(fleet) for line in member.overcommitted.values() if line.fences)
    for fence in list(fleet.member("east").placements):
        fleet.release("east", fence)
    assert free(fleet) == CORES


@given(
    st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(["ana", "bob"]), st.booleans()), max_size=30),
    st.integers(0, 30),
)
@settings(max_examples=60, deadline=None)
def test_many_placed_at_once_stand_as_if_they_had_come_one_by_one(
    attempts: list[tuple[PreparedRequest, str, bool]], before: int
) -> None:
    one_by_one, at_once = a_fleet(), a_fleet()
    for number, (request, owner, _) in enumerate(attempts):
        one_by_one.place("east", f"f{number}", request, owner)
        if number < before:
            at_once.place("east", f"f{number}", request, owner)
    rest = [(f"f{n}", request, owner, known, ()) for n, (request, owner, known) in enumerate(attempts) if n >= before]
    at_once.place_all("east", rest)
    reported = {fence for fence, _, _, known, _ in rest if known}

    def seen(fleet: Fleet) -> tuple[object, ...]:
        member = fleet.member("east")
        lines = [list(line.fences) for line in member.overcommitted.values()]
        return lines, free(fleet), member.placements, member.owners, member.jobs_by_owner

    assert seen(one_by_one) == seen(at_once)
    counted = {fence: size for fence, size in one_by_one.member("east").counted.items() if fence not in reported}
    assert at_once.member("east").counted == counted
    sums = tuple(sum(column) for column in zip(*counted.values(), strict=True)) if counted else (0, 0, 0)
    assert at_once.member("east").placed_since == sums
