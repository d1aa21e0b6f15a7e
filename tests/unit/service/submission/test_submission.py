"""Submitting: acknowledged is stored, decided and counted; asked again is the same job."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Conflict, Corrupt, Invalid, RainbowError
from rainbow_sched.model.job import Delivery, Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.agents import offers
from rainbow_sched.service.clusters import reported_state
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def test_a_job_that_fits_is_given_to_a_cluster_at_once(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=2)
        [receipt] = await submit(service, a_submission(nodes=2))
        assert (receipt.state, receipt.cluster) == (JobState.BOUND, "east")
        view = await jobs.get(service.core, receipt.id, ADMIN)
        assert view.attempt is not None
        assert view.attempt.cluster == "east"


async def test_what_is_placed_is_taken_from_what_fits_now(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        first, second = await submit(service, a_submission(cores=3), a_submission(cores=3))
        assert first.state is JobState.BOUND
        assert second.state is JobState.HELD
        assert "east" in second.reason


async def test_a_waiting_job_is_decided_when_a_cluster_that_fits_appears(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "tiny", nodes=1, cores=1)
        [receipt] = await submit(service, a_submission(nodes=4))
        assert receipt.state is JobState.HELD
        await with_cluster(service, "large", nodes=4)
        await service.scheduling_loop.decide_pending()
        view = await jobs.get(service.core, receipt.id, ADMIN)
        assert (view.job.state, view.job.cluster) == (JobState.BOUND, "large")


async def test_jobs_that_cannot_run_anywhere_fail_fast_only_when_asked(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "tiny", nodes=1, cores=1)
        patient, hasty = await submit(
            service, a_submission(nodes=9), a_submission(nodes=9, terms=Terms(fail_fast=True))
        )
        assert (patient.state, hasty.state) == (JobState.HELD, JobState.INFEASIBLE)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ('{"retries":2}', Terms(retries=2)),
        ('{"delivery":"at-least-once","retries":2}', Terms(retries=2, delivery=Delivery.AT_LEAST_ONCE)),
        ('{"delivery":"at-least-once"}', Terms(reruns=3)),
    ],
)
async def test_a_submission_that_is_repeated_after_an_upgrade_is_the_same_job(
    tmp_path: Path, stored: str, asked: Terms
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [first] = await submit(service, a_submission(token="t", terms=asked))
        row = {"id": first.id, "name": "job", "terms": stored, "start_after": None, "deadline": None}
        await service.core.store.write(lambda tx: tx.db.change("update_terms", **row))
        [again] = await submit(service, a_submission(token="t", terms=asked))
        assert (again.id, again.again) == (first.id, True)
        with pytest.raises(Conflict, match="used for another job"):
            await submit(service, a_submission(token="t", terms=Terms(retries=3)))


async def test_the_same_client_token_gives_the_same_job(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        first = await submit(service, a_submission(token="t"))
        again = await submit(service, a_submission(token="t"))
        assert again[0].id == first[0].id
        assert again[0].again
        with pytest.raises(Conflict):
            await submit(service, a_submission(token="t", cores=2))
        other = await submit(service, a_submission("bob", token="t"))
        assert other[0].id != first[0].id


async def test_a_repeated_submission_takes_nothing_twice(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        for _ in range(3):
            await submit(service, a_submission(token="t", cores=2))
        [more] = await submit(service, a_submission(cores=2))
        assert more.state is JobState.BOUND


async def test_what_a_job_waits_for_is_said_in_few_words(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=8, cores=64)
        first = [receipt.id for receipt in await submit(service, *[a_submission() for _ in range(6)])]
        kinds = ["afterok", "afterok", "after", "afterok", "afterok", "after"]
        waits = tuple(Dependency(kind, id) for kind, id in zip(kinds, first, strict=True))
        [receipt] = await submit(service, replace(a_submission(), waits_for=waits))
        assert receipt.reason == "waits for afterok:1-2,4-5, after:3,6"


async def test_many_submitters_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=8, cores=64)
        asked = [submit(service, a_submission(f"user{i}", token=str(i))) for i in range(50)]
        receipts = [one for [one] in await asyncio.gather(*asked)]
        assert len({receipt.id for receipt in receipts}) == 50
        for i, receipt in enumerate(receipts):
            view = await jobs.get(service.core, receipt.id, ADMIN)
            assert view.job.owner == f"user{i}"


async def test_one_bad_submission_does_not_spoil_its_neighbours(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission(token="t"))
        good, bad = await asyncio.gather(
            submit(service, a_submission()), submit(service, a_submission(token="t", cores=2)), return_exceptions=True
        )
        assert isinstance(bad, Conflict)
        assert isinstance(good, list)
        assert good[0].state is JobState.BOUND


async def test_a_batch_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        with pytest.raises(Invalid):
            await submit(service, a_submission(token="x"), a_submission(token="x"))
        listed = await jobs.listed(service.core, jobs.JobSelection(), ADMIN, before=0, limit=10)
        assert listed == []


async def test_a_held_job_waits_for_its_owner(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [receipt] = await submit(service, a_submission(terms=Terms(hold=True)))
        await service.scheduling_loop.decide_pending()
        held = await jobs.get(service.core, receipt.id, ADMIN)
        assert (held.job.state, held.job.hold) == (JobState.HELD, Hold.USER)
        await jobs.release(service.core, receipt.id, ADMIN)
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, receipt.id, ADMIN)).job.state is JobState.BOUND


async def test_a_dependent_job_waits_and_ends_when_it_can_never_run(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [first] = await submit(service, a_submission(terms=Terms(hold=True)))
        from dataclasses import replace

        after = replace(a_submission(), waits_for=(Dependency("afterok", first.id),))
        [second] = await submit(service, after)
        assert second.state is JobState.HELD
        await jobs.cancel(service.core, [first.id], None, ADMIN, "")
        view = await jobs.get(service.core, second.id, ADMIN)
        assert view.job.state is JobState.FAILED
        assert f"afterok:{first.id}" in view.job.reason


async def test_a_policy_that_wants_bids_decides_after_the_job_is_stored(tmp_path: Path) -> None:
    async with a_service(tmp_path, settings=Settings(policy="start", bid_deadline=0.05)) as service:
        await with_cluster(service, "east")
        [receipt] = await submit(service, a_submission())
        assert receipt.state is JobState.QUEUED
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, receipt.id, ADMIN)).job.state is JobState.BOUND


async def test_waiting_jobs_and_placements_survive_a_restart(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        [bound] = await submit(service, a_submission(cores=3))
        [waiting] = await submit(service, a_submission(cores=3))
    async with a_service(tmp_path) as service:
        assert len(service.core.pending) == 1
        [third] = await submit(service, a_submission(cores=3))
        assert third.state is JobState.HELD
        await jobs.cancel(service.core, [bound.id], None, ADMIN, "")
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, waiting.id, ADMIN)).job.state is JobState.BOUND
        assert (await jobs.get(service.core, third.id, ADMIN)).job.state is JobState.HELD


async def test_a_batch_with_a_bad_member_takes_nothing(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        with pytest.raises(RainbowError):
            await submit(service, a_submission(cores=4), a_submission(terms=Terms(policy="no-such-policy")))
        [later] = await submit(service, a_submission(cores=4))
        assert later.state is JobState.BOUND


async def test_waiting_jobs_of_one_shape_go_one_by_one_as_room_comes(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        first = await submit(service, *[a_submission(cores=4) for _ in range(4)])
        for running in range(4):
            states = [(await jobs.get(service.core, one.id, ADMIN)).job.state for one in first]
            assert states.count(JobState.BOUND) == 1
            assert states[running] is JobState.BOUND, "the oldest goes first"
            service.core.pending.changed()
            await service.scheduling_loop.decide_pending()
            await jobs.cancel(service.core, [first[running].id], None, ADMIN, "")
            await service.scheduling_loop.decide_pending()


async def test_a_damaged_request_does_not_keep_the_server_from_starting(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [damaged] = await submit(service, a_submission(cores=1))
        [whole] = await submit(service, a_submission(cores=2))
    with contextlib.closing(sqlite3.connect(tmp_path / "rainbow.db")) as db, db:
        changed = "UPDATE texts SET body = x'7b7d' WHERE id = (SELECT spec FROM jobs WHERE id = ?)"
        assert db.execute(changed, (damaged.id,)).rowcount == 1
    async with a_service(tmp_path) as service:
        assert (await jobs.get(service.core, whole.id, ADMIN)).job.state is JobState.BOUND
        with pytest.raises(Corrupt):
            await jobs.get(service.core, damaged.id, ADMIN)


async def test_a_constraint_on_slots_counts_them_for_submit_as_for_plan(tmp_path: Path) -> None:
    options = {"priorities": "- {priority: 1, steps: [{filter: slots_now >= 3}, {sort_descending: slots_now}]}"}
    settings = Settings(policy="constraint", policy_options=options)
    async with a_service(tmp_path, settings=settings) as service:
        await with_cluster(service, "small", nodes=2)
        await with_cluster(service, "large", nodes=5)
        [receipt] = await submit(service, a_submission())
        assert receipt.cluster == "large"


@pytest.mark.parametrize(
    "other",
    [Terms(priority=5), Terms(only_clusters=("west",)), Terms(max_cost=1.0), Terms(labels={"team": "bio"})],
)
async def test_a_client_token_with_another_body_is_an_error_whatever_differs(tmp_path: Path, other: Terms) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        terms = Terms(only_clusters=("east",), opened=("east", "w*"))
        [first] = await submit(service, a_submission(token="t", terms=terms))
        [again] = await submit(service, a_submission(token="t", terms=terms))
        assert (again.id, again.again) == (first.id, True)
        with pytest.raises(Conflict, match="take a new token"):
            await submit(service, a_submission(token="t", terms=other))


FREE = Settings(
    policy="constraint", policy_options={"priorities": "- {priority: 1, steps: [{filter: nodes_free > 0}]}"}
)


async def test_what_was_placed_since_the_report_is_counted_once_and_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, settings=FREE, clock=clock) as service:
        await with_cluster(service, "east", nodes=64, cores=64)
        await reported_state.update_state(service.core, "east", {"nodes_free": 3})
        clock.advance(1)
        for _ in range(5):
            [same] = await submit(service, a_submission(token="t"))
        assert (same.state, same.again) == (JobState.BOUND, True)
        assert service.core.fleet.member("east").placed_since.jobs == 1
        assert (await submit(service, a_submission()))[0].state is JobState.BOUND
    async with a_service(tmp_path, settings=FREE, clock=clock) as service:
        assert service.core.fleet.member("east").placed_since.jobs == 2
        assert (await submit(service, a_submission()))[0].state is JobState.BOUND
        assert (await submit(service, a_submission()))[0].state is JobState.HELD
        clock.advance(1)
        await reported_state.update_state(service.core, "east", {"nodes_free": 1})
        assert service.core.fleet.member("east").placed_since.jobs == 0


async def test_what_has_ended_since_the_report_is_no_longer_counted(tmp_path: Path) -> None:
    async with a_service(tmp_path, settings=FREE) as service:
        await with_cluster(service, "east", nodes=64, cores=64)
        await reported_state.update_state(service.core, "east", {"nodes_free": 1})
        [first] = await submit(service, a_submission())
        assert (await submit(service, a_submission()))[0].state is JobState.HELD
        await jobs.cancel(service.core, [first.id], None, ADMIN, "")
        assert service.core.fleet.member("east").placed_since.jobs == 0
        assert (await submit(service, a_submission()))[0].state is JobState.BOUND


async def test_the_servers_own_age_of_a_stale_state_and_its_options_hold_for_its_policy_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = Settings(policy="least", policy_options={"key": "load"}, stale_after=50.0)
    async with a_service(tmp_path, settings=settings, clock=clock) as service:
        for name, load in (("east", 1), ("west", 5)):
            await with_cluster(service, name, nodes=8, cores=8)
            await reported_state.update_state(service.core, name, {"load": load, "queue_depth": 9 - load})
        assert (await submit(service, a_submission()))[0].cluster == "east"
        own = Terms(policy="least", policy_options={"key": "queue_depth"})
        assert (await submit(service, a_submission(terms=own)))[0].cluster == "west"
        assert (await submit(service, a_submission(terms=Terms(policy="least"))))[0].cluster == "east"
        clock.advance(60)
        await reported_state.update_state(service.core, "west", {"load": 5})
        assert (await submit(service, a_submission()))[0].cluster == "west"  # what east said is too old


async def test_a_job_that_a_receiver_did_not_accept_comes_back_to_it_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east", nodes=1, cores=1)
        made = await submit(service, *[a_submission(terms=Terms(later=True)) for _ in range(3)])
        assert {receipt.cluster for receipt in made} == {"east"}
        clock.advance(100)
        for _ in range(2):
            taken = await offers.receive(service.core, "east", 10)
            assert [job.id for _, job in taken] == [receipt.id for receipt in made]
            clock.advance(61)
            await service.timers.tick()
            await service.scheduling_loop.decide_pending()


async def test_only_what_is_leased_can_be_accepted(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [receipt] = await submit(service, a_submission())
        wish = [(receipt.id, 0, "")]
        assert await offers.accept(service.core, "east", wish) == []
        await offers.receive(service.core, "east", 1)
        assert len(await offers.accept(service.core, "east", wish)) == 1
        assert await offers.accept(service.core, "east", wish) == []
