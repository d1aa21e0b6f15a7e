"""A long batch is stored first and decided after: each job ends up where it would have gone by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.scheduling.plan import UNDECIDED_JOB
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.submission.intake import MAX_JOBS_DECIDED_BEFORE_STORING
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

LONG = MAX_JOBS_DECIDED_BEFORE_STORING + 20


async def states(service: Service) -> list[tuple[JobState, str]]:
    found = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=1000))
    return [(job.state, job.cluster) for job in sorted(found, key=lambda job: job.id)]


async def test_a_long_batch_is_acknowledged_before_it_is_decided(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=2, cores=64)
        receipts = await submit(service, *[a_submission(cores=1)] * LONG)
        assert {(receipt.state, receipt.reason) for receipt in receipts} == {(JobState.QUEUED, UNDECIDED_JOB.reason)}
        assert len({receipt.id for receipt in receipts}) == LONG
        await service.scheduling_loop.decide_pending()
        assert await states(service) == [(JobState.BOUND, "west")] * LONG


async def test_a_long_batch_goes_where_single_jobs_go_and_the_rest_waits(tmp_path: Path) -> None:
    one_by_one, together = tmp_path / "one", tmp_path / "all"
    found = []
    for folder, at_once in ((one_by_one, False), (together, True)):
        folder.mkdir()
        async with a_service(folder, settings=Settings(policy="first")) as service:
            await with_cluster(service, "east", nodes=2, cores=8)
            await with_cluster(service, "west", nodes=4, cores=10)
            wanted = [a_submission(cores=1 + i % 3) for i in range(LONG)]
            if at_once:
                await submit(service, *wanted)
                await service.scheduling_loop.decide_pending()
            else:
                for one in wanted:
                    await submit(service, one)
            found.append(await states(service))
    assert found[0] == found[1]
    assert {state for state, _ in found[0]} == {JobState.BOUND, JobState.HELD}


async def test_what_waits_of_a_batch_says_why_and_goes_when_room_comes(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=1, cores=4)
        await submit(service, *[a_submission(cores=1)] * LONG)
        await service.scheduling_loop.decide_pending()
        which = JobSelection(states=frozenset({JobState.HELD}))
        waiting = await service.core.store.read(lambda tx: tx.list_jobs(which, limit=1000))
        assert len(waiting) == LONG - 4
        assert {job.reason for job in waiting} == {"west: busy, fits later"}
        for job in waiting:
            decision = await service.core.store.read(lambda tx, id=job.id: tx.decision(id))
            assert decision is not None
            assert decision.decision().outcome.reasons == ("west: busy, fits later",)
        await with_cluster(service, "east", nodes=8, cores=16)
        service.core.pending.changed()
        await service.scheduling_loop.decide_pending()
        assert [cluster for _, cluster in await states(service)] == ["west"] * 4 + ["east"] * (LONG - 4)


async def test_urgent_jobs_of_a_batch_are_decided_first(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=1, cores=2)
        calm, urgent = a_submission(cores=1), a_submission(cores=1, terms=Terms(priority=9))
        await submit(service, *[calm] * LONG, urgent, urgent)
        await service.scheduling_loop.decide_pending()
        assert [state for state, _ in await states(service)] == [JobState.HELD] * LONG + [JobState.BOUND] * 2


async def test_a_job_that_is_cancelled_before_its_turn_stays_so_and_spoils_nothing(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=2, cores=64)
        receipts = await submit(service, *[a_submission(cores=1)] * LONG)
        deciding = asyncio.create_task(service.scheduling_loop.decide_pending())
        await jobs.cancel(service.core, [receipts[5].id], None, ADMIN, "")
        await deciding
        found = await states(service)
        ended = found.pop(5)
        assert ended[0] in (JobState.CANCELLED, JobState.CANCELLING)
        assert found == [(JobState.BOUND, "west")] * (LONG - 1)


async def test_a_batch_survives_a_restart_before_it_was_decided(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=2, cores=64)
        await submit(service, *[a_submission(cores=1)] * LONG)
    async with a_service(tmp_path) as service:
        await service.scheduling_loop.decide_pending()
        assert await states(service) == [(JobState.BOUND, "west")] * LONG


async def test_one_client_token_in_two_calls_of_one_write_is_one_job(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "west", nodes=2, cores=64)
        same = a_submission(cores=1, token="again")
        other = a_submission(cores=1, token="other")
        answers = await asyncio.gather(*(submit(service, one) for one in (same, other, same, same)))
        ids = [receipts[0].id for receipts in answers]
        assert ids[0] == ids[2] == ids[3] != ids[1]
        assert [receipts[0].again for receipts in answers] == [False, False, True, True]
        member = service.core.fleet.member("west")
        assert len(member.placements) == 2
