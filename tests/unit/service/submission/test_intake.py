"""Calls share writes: how many, how long one waits for the others, and whose fault is whose answer."""

from __future__ import annotations

import asyncio
import itertools
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Unavailable, Unconfirmed
from rainbow_sched.model.job import Terms
from rainbow_sched.selection.decisions import Question
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.scheduling import plan
from rainbow_sched.service.submission import intake
from rainbow_sched.service.submission.new_jobs import Receipt
from rainbow_sched.store.base import Dependency, JobSelection
from tests.support.manual_clock import ManualClock
from tests.support.service import a_service, a_submission, submit, with_cluster

LONG = 60.0


def _works(service: Service) -> int:
    count: int = service.core.store.counts.works  # type: ignore[attr-defined]  # the engine counts them
    return count


def _commit_unheard(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commit is durable, and nobody is told so."""
    session = service.core.store._writer.session  # type: ignore[attr-defined]  # the engine has one
    real = session.commit

    def unheard() -> None:
        real()
        monkeypatch.undo()
        raise ConnectionError("on purpose")

    monkeypatch.setattr(session, "commit", unheard)


async def _one_by_one(service: Service, count: int) -> list[asyncio.Task[list[Receipt]]]:
    """As they come from a connection: a turn of the event loop lies between two."""
    calls: list[asyncio.Task[list[Receipt]]] = []
    for n in range(count):
        calls.append(asyncio.create_task(submit(service, a_submission(f"user{n}"))))
        await asyncio.sleep(0)
    return calls


async def test_calls_that_come_while_a_write_is_under_way_share_the_next(tmp_path: Path) -> None:
    free = threading.Event()
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        stuck = asyncio.create_task(service.core.store.write(lambda tx: free.wait(20)))
        await asyncio.sleep(0)  # it asks
        before = _works(service)
        calls = await _one_by_one(service, 20)
        free.set()
        await stuck
        assert len({receipt.id for [receipt] in await asyncio.gather(*calls)}) == 20
        assert _works(service) == before + 3  # the stuck one, the first that came, and all the others


async def test_a_write_waits_for_as_many_as_shared_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "WAIT_SECONDS_PER_CALL", LONG)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        await asyncio.gather(*[submit(service, a_submission(f"user{n}")) for n in range(5)])
        before = _works(service)
        calls = await _one_by_one(service, 4)
        await asyncio.sleep(0)
        assert not any(call.done() for call in calls)
        async with asyncio.timeout(20):
            await asyncio.gather(*calls, submit(service, a_submission("the fifth")))
        assert _works(service) == before + 1


async def test_who_is_expected_and_does_not_come_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        await asyncio.gather(*[submit(service, a_submission(f"user{n}")) for n in range(5)])
        async with asyncio.timeout(20):
            await asyncio.gather(*await _one_by_one(service, 3))
        monkeypatch.setattr(intake, "WAIT_SECONDS_PER_CALL", LONG)
        async with asyncio.timeout(20):
            await asyncio.gather(*await _one_by_one(service, 3))  # nobody expects five any more


async def test_it_waits_on_while_callers_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "WAIT_SECONDS_PER_CALL", LONG)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        await asyncio.gather(*[submit(service, a_submission(f"user{n}")) for n in range(5)])
        calls = await _one_by_one(service, 2)
        service.intake._wait_elapsed(1, 3)  # as the timer does, when there was one
        assert service.intake._write_task is None
        service.intake._wait_elapsed(2, 3)  # and nobody else has come since
        async with asyncio.timeout(20):
            await asyncio.gather(*calls)


async def test_an_internal_error_in_one_decision_is_the_answer_to_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = plan.decide

    def faulty(question: Question, *more: object) -> object:
        if question.criteria.demand.nodes == 2:
            raise RuntimeError("on purpose")
        return real(question, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "decide", faulty)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        calls = [submit(service, a_submission(nodes=nodes)) for nodes in (1, 2, 3)]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [list, RuntimeError, list]
        assert len(service.core.fleet.member("alpha").placements) == 2


async def test_only_a_few_plain_jobs_are_written_in_the_thread_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        threads: list[bool] = []
        real = intake.insert

        def noted(*args: object) -> object:
            threads.append(threading.current_thread() is threading.main_thread())
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(intake, "insert", noted)
        await submit(service, a_submission())  # what its owner has is not known yet: it may have to be counted
        [receipt] = await submit(service, a_submission())
        await submit(service, *[a_submission() for _ in range(intake.MAX_JOBS_PER_SHARED_WRITE + 1)])
        await submit(service, replace(a_submission(), waits_for=(Dependency("afterok", receipt.id),)))
        await submit(service, replace(a_submission(), source="x" * intake.MAX_SHORT_TEXT_CHARS))
        assert threads == [False, True, False, False, False]


async def test_long_decisions_of_several_calls_leave_others_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, order = ManualClock(), []
    real = plan.decide

    def slow(*args: object) -> object:
        clock.advance(2 * plan.TIME_SLICE_SECONDS)
        order.append("decided")
        return real(*args)  # type: ignore[arg-type]

    async def others() -> None:
        while True:
            order.append("others")
            await asyncio.sleep(0)

    monkeypatch.setattr(plan, "decide", slow)
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "alpha", nodes=8)
        going_on = asyncio.create_task(others())
        await asyncio.gather(*[submit(service, a_submission()) for _ in range(4)])
        going_on.cancel()
        decided = [i for i, what in enumerate(order) if what == "decided"]
        assert len(decided) == 4
        assert all(later - sooner > 1 for sooner, later in itertools.pairwise(decided))


async def test_calls_of_which_nobody_knows_whether_they_are_stored_are_not_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        _commit_unheard(service, monkeypatch)
        calls = [submit(service, a_submission(f"user{n}")) for n in range(3)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unconfirmed] * 3
        stored = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=10))
        assert sorted(job.owner for job in stored) == ["user0", "user1", "user2"]


@pytest.mark.parametrize("count", [1, 3])
async def test_what_was_given_to_a_cluster_that_is_just_leaving_goes_to_another(tmp_path: Path, count: int) -> None:
    free = threading.Event()
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=8)
        await with_cluster(service, "beta", nodes=8)
        stuck = asyncio.create_task(service.core.store.write(lambda tx: free.wait(20)))
        await asyncio.sleep(0)  # it asks
        leaves = asyncio.create_task(registration.delete(service.core, "alpha"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it waits to be written
        calls = await _one_by_one(service, count)
        assert service.core.fleet.get("alpha") is not None
        free.set()
        receipts = await asyncio.gather(*calls)
        assert [receipt.cluster for [receipt] in receipts] == ["beta"] * count
        assert len(service.core.fleet.member("beta").placements) == count
        await asyncio.gather(stuck, leaves)


@pytest.mark.parametrize("count", [1, intake.MAX_JOBS_PER_SHARED_WRITE + 1])
async def test_jobs_that_were_stored_unheard_are_decided_when_they_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with a_service(tmp_path) as service:
        _commit_unheard(service, monkeypatch)
        jobs = [a_submission(token=f"token{n}") for n in range(count)]
        with pytest.raises(Unavailable):
            await submit(service, *jobs)
        receipts = await submit(service, *jobs)
        assert all(receipt.again for receipt in receipts)
        await with_cluster(service, "alpha", nodes=100)
        await service.scheduling_loop.decide_pending()
        stored = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=100))
        assert [job.cluster for job in stored] == ["alpha"] * count


async def test_a_job_that_its_owner_holds_does_not_wait_for_room_when_it_is_asked_for_again(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        held = a_submission(token="token", terms=Terms(hold=True))
        await submit(service, held)
        [receipt] = await submit(service, held)
        assert receipt.again
        assert service.core.pending.group_of(receipt.id) is None
