"""A plan that the store refuses leaves nothing reserved; its jobs are planned again, never lost or given twice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.model.errors import Conflict, NotFound, Unavailable
from rainbow_sched.model.job import Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration, rules
from rainbow_sched.service.scheduling.plan import MAX_PLANS
from rainbow_sched.service.submission.intake import MAX_JOBS_DECIDED_BEFORE_STORING
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection, Tx
from rainbow_sched.store.claim import Replaced
from rainbow_sched.store.transaction import SqlTx
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

COUNTS = [1, 3, MAX_JOBS_DECIDED_BEFORE_STORING + 1]


@contextlib.asynccontextmanager
async def store_busy(service: Service) -> AsyncIterator[None]:
    """Writes of the block are stored after it, in their order."""
    free = threading.Event()
    stuck = asyncio.create_task(service.core.store.write(lambda tx: free.wait(20)))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        free.set()
        await stuck


async def turns(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def all_jobs(service: Service) -> list[Job]:
    found = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=1000))
    return sorted(found, key=lambda job: job.id)


async def assert_reserved_is_live(service: Service) -> None:
    for name in service.core.fleet.names():
        live = await service.core.store.read(lambda tx, name=name: {a.token for a in tx.live_attempts(name)})
        assert set(service.core.fleet.member(name).placements) == live


def refuse(monkeypatch: pytest.MonkeyPatch, times: int, error: Exception) -> list[int]:
    """Make the store refuse the next plans; return a list with one entry per refusal."""
    refused: list[int] = []
    real = SqlTx.check_clusters

    def check(self: SqlTx, planned_for: Any) -> None:
        real(self, planned_for)
        if planned_for and len(refused) < times:
            refused.append(len(planned_for))
            raise error

    monkeypatch.setattr(SqlTx, "check_clusters", check)
    return refused


async def a_queued_job(service: Service, count: int = 1) -> list[int]:
    """Store jobs that the scheduling loop has to decide."""
    made = await submit(service, *[a_submission(terms=Terms(hold=True)) for _ in range(count)])
    for job in made:
        await jobs.release(service.core, job.id, ADMIN)
    return [job.id for job in made]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("change", ["leaves", "rules"])
async def test_queued_jobs_planned_for_a_cluster_that_has_changed_go_elsewhere(
    tmp_path: Path, count: int, change: str
) -> None:
    async with a_service(tmp_path) as service:
        for name in ("alpha", "beta"):
            await with_cluster(service, name, nodes=100)
        await a_queued_job(service, count)
        async with store_busy(service):
            changing = asyncio.create_task(
                registration.delete(service.core, "alpha")  # type: ignore[arg-type]  # any coroutine
                if change == "leaves"
                else rules.set_rules(service.core, "alpha", {"users": ("eve",)})
            )
            await turns()
            deciding = asyncio.create_task(service.scheduling_loop.decide_pending())
            await asyncio.sleep(0.2)
            assert len(service.core.fleet.member("alpha").placements) == count
        await changing
        await deciding
        assert [job.cluster for job in await all_jobs(service)] == ["beta"] * count
        await assert_reserved_is_live(service)


@pytest.mark.parametrize("count", [1, 3])
async def test_submitted_jobs_planned_under_rules_that_have_changed_go_elsewhere(tmp_path: Path, count: int) -> None:
    async with a_service(tmp_path) as service:
        for name in ("alpha", "beta"):
            await with_cluster(service, name, nodes=8)
        async with store_busy(service):
            changing = asyncio.create_task(rules.set_rules(service.core, "alpha", {"users": ("eve",)}))
            await turns()
            calls = [asyncio.create_task(submit(service, a_submission(f"user{n}"))) for n in range(count)]
            await turns()
            assert service.core.fleet.member("alpha").placements
        receipts = await asyncio.gather(*calls)
        await changing
        assert [receipt.cluster for [receipt] in receipts] == ["beta"] * count
        await assert_reserved_is_live(service)


@pytest.mark.parametrize("alone", [False, True])
async def test_a_queued_job_that_was_changed_while_it_was_planned_is_planned_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, alone: bool
) -> None:
    caplog.set_level("INFO")

    def touch(tx: Tx) -> Job:
        job = tx.job(1)
        assert job is not None
        return tx.update_job(job, JobEvent.UPDATED, 1.0)

    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        assert await a_queued_job(service) == [1]
        async with store_busy(service):
            touching = asyncio.create_task(service.core.store.write(touch))
            await turns()
            loop = service.scheduling_loop
            deciding = asyncio.create_task(loop.decide(1) if alone else loop.decide_pending())
            await asyncio.sleep(0.2)
        await touching
        await deciding
        assert [record.msg for record in caplog.records].count("a plan was refused: %s") == 1
        [job] = await all_jobs(service)
        assert job.state is JobState.BOUND
        await assert_reserved_is_live(service)


async def test_a_job_cancelled_while_it_is_planned_leaves_nothing_reserved_though_the_caller_hangs_up(
    tmp_path: Path,
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        [id] = await a_queued_job(service)
        async with store_busy(service):
            cancelling = asyncio.create_task(jobs.cancel(service.core, [id], None, ADMIN, ""))
            await turns()
            deciding = asyncio.create_task(service.scheduling_loop.decide(id))
            await asyncio.sleep(0.2)
            assert service.core.fleet.member("alpha").placements
            deciding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deciding
        await cancelling
        await asyncio.sleep(0.2)
        assert [job.state for job in await all_jobs(service)] == [JobState.CANCELLED]
        assert not service.core.fleet.member("alpha").placements


async def test_a_plan_whose_caller_hangs_up_while_it_is_stored_counts(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        [id] = await a_queued_job(service)
        async with store_busy(service):
            deciding = asyncio.create_task(service.scheduling_loop.decide(id))
            await asyncio.sleep(0.2)
            deciding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deciding
        await asyncio.sleep(0.2)
        assert [job.state for job in await all_jobs(service)] == [JobState.BOUND]
        assert len(service.core.fleet.member("alpha").placements) == 1
        await assert_reserved_is_live(service)


@pytest.mark.parametrize("error", [Conflict("on purpose"), NotFound("on purpose")], ids=["conflict", "gone"])
@pytest.mark.parametrize("calls", [1, 3])
async def test_a_submission_whose_plans_are_all_refused_is_stored_and_decided_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, calls: int
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        refused = refuse(monkeypatch, 1_000, error)
        answers = await asyncio.gather(*[submit(service, a_submission(f"user{n}")) for n in range(calls)])
        assert [receipt.state for [receipt] in answers] == [JobState.QUEUED] * calls
        assert MAX_PLANS <= len(refused) <= MAX_PLANS * calls
        assert not service.core.fleet.member("alpha").placements
        monkeypatch.undo()
        await service.scheduling_loop.decide_pending()
        assert [job.state for job in await all_jobs(service)] == [JobState.BOUND] * calls
        await assert_reserved_is_live(service)


@pytest.mark.parametrize("count", COUNTS)
async def test_a_queued_job_whose_plans_are_all_refused_is_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "alpha", nodes=100)
        await a_queued_job(service, count)
        refuse(monkeypatch, 10_000, Conflict("on purpose"))
        await service.scheduling_loop.decide_pending()
        assert {job.state for job in await all_jobs(service)} == {JobState.QUEUED}
        assert not service.core.fleet.member("alpha").placements
        monkeypatch.undo()
        clock.advance(10.0)
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        assert [job.state for job in await all_jobs(service)] == [JobState.BOUND] * count
        await assert_reserved_is_live(service)


async def test_a_server_that_no_longer_leads_gives_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rainbow_sched.service.scheduling.loop.RETRY_SECONDS", 0.0)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        [id] = await a_queued_job(service)
        refused = refuse(monkeypatch, 1_000, Replaced("another server has taken over"))
        with pytest.raises(Unavailable):
            await submit(service, a_submission())
        assert len(refused) == 1
        await service.scheduling_loop.decide_pending()
        with pytest.raises(Unavailable):
            await service.scheduling_loop.decide(id)
        assert not service.core.fleet.member("alpha").placements
        monkeypatch.undo()
        await service.scheduling_loop.decide_pending()
        assert [job.state for job in await all_jobs(service)] == [JobState.BOUND]


async def test_an_error_of_one_call_fails_that_call_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., list[int]] = SqlTx.add_jobs

    def add_jobs(self: SqlTx, new_jobs: Any) -> list[int]:
        if any(job.owner == "bob" for job in new_jobs):
            raise Conflict("on purpose")
        return real(self, new_jobs)

    monkeypatch.setattr(SqlTx, "add_jobs", add_jobs)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        calls = [submit(service, a_submission(owner)) for owner in ("ana", "bob", "eve")]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, Conflict, list]
        assert [job.owner for job in await all_jobs(service)] == ["ana", "eve"]
        await assert_reserved_is_live(service)
