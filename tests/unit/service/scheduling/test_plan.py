"""A plan sees what it reserved before, and leaves nothing reserved that was not stored."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.scheduling.plan import PlacementQuery, PlannedJob, Reservations, TimeSlice, plan
from rainbow_sched.service.settings import Settings
from tests.support.service import a_service, a_submission, with_cluster

NAMES = ("east", "north", "west")
clusters = st.lists(st.integers(1, 8), min_size=1, max_size=3)
jobs = st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12)


def by_hand(sizes: list[int], wanted: list[tuple[int, bool]]) -> list[tuple[JobState, str]]:
    """The oracle: the first cluster with enough free cores, counted down job by job."""
    free, found = dict(zip(NAMES, sizes, strict=False)), []
    for cores, fail_fast in wanted:
        there = [name for name in sorted(free) if free[name] >= cores]
        if there:
            free[there[0]] -= cores
            found.append((JobState.BOUND, there[0]))
        else:
            never = fail_fast and cores > max(sizes)
            found.append((JobState.INFEASIBLE if never else JobState.HELD, ""))
    return found


def reserved_on(service: Service) -> dict[str, set[str]]:
    fleet = service.core.fleet
    return {name: set(fleet.member(name).placements) for name in fleet.names()}


async def planned(service: Service, reserved: Reservations, wanted: list[tuple[int, bool]]) -> list[PlannedJob]:
    asked = [(a_submission(cores=cores), Terms(fail_fast=fail_fast)) for cores, fail_fast in wanted]
    queries = [PlacementQuery(one.request, terms, one.owner) for one, terms in asked]
    return await plan(service.core, reserved, queries, TimeSlice(service.core, urgent=True))


@given(clusters, jobs, st.booleans(), st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_a_plan_is_what_deciding_job_by_job_gives(
    sizes: list[int], wanted: list[tuple[int, bool]], keep: bool, cut: int
) -> None:
    async def check(folder: Path) -> None:
        async with a_service(folder, settings=Settings(policy="first")) as service:
            for name, cores in zip(NAMES, sizes, strict=False):
                await with_cluster(service, name, nodes=1, cores=cores)
            empty = reserved_on(service)
            with Reservations(service.core) as reserved:
                made = [
                    *await planned(service, reserved, wanted[:cut]),
                    *await planned(service, reserved, wanted[cut:]),
                ]
                assert [(one.state, one.cluster) for one in made] == by_hand(sizes, wanted)
                if keep:
                    reserved.keep()
            held = {name: {one.fence for one in made if one.cluster == name} for name in empty}
            assert reserved_on(service) == (held if keep else empty)
            with Reservations(service.core) as reserved:  # what was released is free again
                if not keep:
                    again = await planned(service, reserved, wanted)
                    assert [(one.state, one.cluster) for one in again] == by_hand(sizes, wanted)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


async def test_a_plan_whose_caller_is_cancelled_reserves_nothing(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=64)
        with Reservations(service.core) as reserved:
            planning = asyncio.create_task(planned(service, reserved, [(1, False)] * 20))
            await asyncio.sleep(0)
            assert reserved_on(service)["east"]
            planning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await planning
            assert reserved_on(service) == {"east": set()}


async def test_those_who_found_no_room_try_again_when_a_plan_is_given_up(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        with Reservations(service.core) as reserved:
            await planned(service, reserved, [(4, False)])
            [receipt] = await service.intake.submit([a_submission(cores=1)])
            assert receipt.state is JobState.HELD
            service.core.pending._change.clear()
        async with asyncio.timeout(10):
            await service.core.pending.wait_for_change()
        await service.scheduling_loop.decide_pending()
        assert reserved_on(service)["east"]
