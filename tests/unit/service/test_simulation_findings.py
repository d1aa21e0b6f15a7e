"""Promises that the simulation found broken once, each in its smallest form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict, Unavailable
from rainbow_sched.model.job import Delivery, Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.match import Matches
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import Report, SyncAnswer
from rainbow_sched.selection.decisions import Question
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.core import Core
from rainbow_sched.service.maintenance import timers
from rainbow_sched.service.maintenance.timers import Timers
from rainbow_sched.service.scheduling import loop, plan
from rainbow_sched.service.scheduling.plan import PlacementQuery, build_question
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency, Store, Tx
from tests.support.agents import sync_request
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_request, a_service, a_submission, submit, with_cluster

T = TypeVar("T")


async def says(service: Service, seq: int, **values: object) -> SyncAnswer:
    return await service.agents.sync(sync_request("east", "e1", seq, **values), "server")


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


@pytest.mark.parametrize(
    ("delivery", "following"), [(Delivery.AT_MOST_ONCE, JobState.FAILED), (Delivery.AT_LEAST_ONCE, JobState.QUEUED)]
)
async def test_a_preempted_job_runs_again_only_by_its_owners_word(
    tmp_path: Path, delivery: Delivery, following: JobState
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission(terms=Terms(delivery=delivery)))
        await says(service, 1, want=1)
        [ref] = [offer.ref for offer in (await says(service, 2, want=1)).offers]
        await says(service, 3, accepts=(ref,))
        await says(service, 4, reports=(Report(ref=ref, state=AttemptState.PREEMPTED),))
        assert await state(service, job.id) is following


async def test_a_job_that_waits_for_one_that_has_ended_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [ended] = await submit(service, a_submission())
        await jobs.cancel(service.core, [ended.id], None, ADMIN, "")
        good = replace(a_submission(), waits_for=(Dependency("afterany", ended.id),))
        bad = replace(a_submission(), waits_for=(Dependency("afterok", ended.id),))
        first, second = await submit(service, good, bad)
        assert (first.state, second.state) == (JobState.QUEUED, JobState.FAILED)
        await service.scheduling_loop.decide_pending()
        assert await state(service, first.id) is JobState.BOUND


async def test_a_batch_with_a_token_of_another_job_stores_none_of_its_jobs(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission(token="t1", cores=1))
        with pytest.raises(Conflict, match="t1"):
            await submit(service, a_submission(token="t2"), a_submission(token="t1", cores=2))
        assert await service.core.store.read(lambda tx: tx.jobs_by_tokens("ana", ["t2"])) == {}


class Refusing:
    """A store that refuses writes while told to, as one on a full disk does."""

    def __init__(self, store: Store) -> None:
        self.store, self.full = store, False

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        if self.full:
            raise Unavailable("the disk is full")
        return await self.store.write(work, brief=brief)

    async def read(self, work: Callable[[Tx], T]) -> T:
        return await self.store.read(work)

    async def close(self) -> None:
        await self.store.close()


async def test_a_decision_that_could_not_be_stored_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RETRY_SECONDS", 0.0)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission(terms=Terms(hold=True)))
        await jobs.release(service.core, job.id, ADMIN)
        store = Refusing(service.core.store)
        service.core.store, store.full = store, True
        await service.scheduling_loop.decide_pending()
        store.full = False
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.BOUND


async def test_an_internal_error_over_one_job_stops_neither_the_others_nor_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(core: Core, ask: PlacementQuery) -> Question:
        if ask.owner == "bob":
            raise RuntimeError("on purpose")
        return build_question(core, ask)

    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        made = []
        for owner in ("ana", "bob", "eve"):
            made += await submit(service, a_submission(owner, terms=Terms(hold=True)))
        monkeypatch.setattr(plan, "build_question", faulty)
        for job in made:
            await jobs.release(service.core, job.id, ADMIN)
        await service.scheduling_loop.decide_pending()
        assert [await state(service, job.id) for job in made] == [JobState.BOUND, JobState.QUEUED, JobState.BOUND]
        assert len(service.core.fleet.member("east").placements) == 2  # nothing was set aside twice


class Troubled:
    """`question` that fails for one owner's jobs while told to, and counts."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.asked = 0

    def __call__(self, core: Core, ask: PlacementQuery) -> Question:
        if ask.owner == "bob":
            self.asked += 1
            if self.error is not None:
                raise self.error
        return build_question(core, ask)


async def _passes(service: Service, clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1.0)
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()


async def test_a_job_over_which_deciding_failed_is_tried_again_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, faulty = ManualClock(), Troubled(RuntimeError("on purpose"))
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission("bob", terms=Terms(hold=True)))
        monkeypatch.setattr(plan, "build_question", faulty)
        await jobs.release(service.core, job.id, ADMIN)
        await service.scheduling_loop.decide_pending()
        await _passes(service, clock, 128)
        assert 7 <= faulty.asked / 2 <= 9  # after 1, 2, 4, 8 ... seconds, each time together with others and alone
        faulty.error = None
        await _passes(service, clock, 128)
        assert await state(service, job.id) is JobState.BOUND


async def test_a_job_that_waits_for_room_waits_on_after_deciding_failed_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, faulty = ManualClock(), Troubled(RuntimeError("on purpose"))
    async with a_service(tmp_path, clock=clock) as service:
        [job] = await submit(service, a_submission("bob"))
        monkeypatch.setattr(plan, "build_question", faulty)
        await service.scheduling_loop.decide_pending()
        faulty.error = None
        await _passes(service, clock, 4)
        assert await state(service, job.id) is JobState.HELD
        await with_cluster(service, "east")
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.BOUND


async def test_a_cancelled_job_over_which_deciding_failed_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, faulty = ManualClock(), Troubled(RuntimeError("on purpose"))
    async with a_service(tmp_path, clock=clock) as service:
        [job] = await submit(service, a_submission("bob"))
        monkeypatch.setattr(plan, "build_question", faulty)
        await service.scheduling_loop.decide_pending()
        await jobs.cancel(service.core, [job.id], None, ADMIN, "")
        service.core.pending.requeue_deferred(clock.now() + 1_000.0)
        assert not service.core.pending.queued


async def test_graphs_that_cannot_be_asked_now_make_no_job_infeasible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RETRY_SECONDS", 0.0)
    away = Troubled(Unavailable("the graph database cannot be asked"))
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission("bob", terms=Terms(hold=True)))
        monkeypatch.setattr(plan, "build_question", away)
        await jobs.release(service.core, job.id, ADMIN)
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.QUEUED
        away.error = None
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.BOUND


async def test_an_internal_error_in_the_matching_of_one_pile_does_not_end_the_decider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east", nodes=1, cores=1)
        [first] = await submit(service, a_submission(cores=1))
        [second] = await submit(service, a_submission(cores=1))
        await service.scheduling_loop.decide_pending()  # the pile knows now what it needs
        graphs = service.core.fleet.graphs
        real, failed = graphs.match, []

        def match(request: Request, among: Sequence[str] | None = None) -> Matches:
            if not failed:
                failed.append(request)
                raise RuntimeError("on purpose")
            return real(request, among)

        monkeypatch.setattr(type(graphs), "match", staticmethod(match))
        await jobs.cancel(service.core, [first.id], None, ADMIN, "")
        await service.scheduling_loop.decide_pending()
        assert failed
        await _passes(service, clock, 2)
        assert await state(service, second.id) is JobState.BOUND


async def test_an_internal_error_in_one_pass_of_the_timers_does_not_end_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: asyncio.Queue[None] = asyncio.Queue()

    async def faulty(self: Timers) -> None:
        passes.put_nowait(None)
        raise RuntimeError("on purpose")

    monkeypatch.setattr(timers, "PASS_SECONDS", 0.0)
    async with a_service(tmp_path) as service:
        monkeypatch.setattr(Timers, "_expire_leases", faulty)
        running = asyncio.create_task(service.timers.run())
        async with asyncio.timeout(20):
            for _ in range(3):
                await passes.get()
        running.cancel()


async def test_an_internal_error_in_one_step_of_the_timers_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = asyncio.Event()

    async def faulty(self: Timers) -> None:
        raise RuntimeError("on purpose")

    async def reached(self: Timers) -> int:
        last.set()
        return 0

    monkeypatch.setattr(timers, "PASS_SECONDS", 0.0)
    async with a_service(tmp_path) as service:
        monkeypatch.setattr(Timers, "_start_due_jobs", faulty)
        monkeypatch.setattr(Timers, "delete_old", reached)
        running = asyncio.create_task(service.timers.run())
        async with asyncio.timeout(20):
            await last.wait()
        running.cancel()


async def test_a_clock_that_was_set_back_does_not_stretch_a_lease(tmp_path: Path) -> None:
    async with a_service(tmp_path, clock=ManualClock(1_000_000.0)) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        await says(service, 1, want=1)
        await says(service, 2, want=1)
    clock = ManualClock(1_000_000.0 - 3_600.0)
    async with a_service(tmp_path, clock=clock) as service:
        clock.advance(2 * service.core.settings.lease + 1.0)
        await service.timers.tick()
        assert await state(service, job.id) is JobState.QUEUED


async def test_an_older_row_of_a_cluster_does_not_replace_a_newer_one_in_memory(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        older = await registration.set_standing(service.core, "east", Standing.DRAINING, "")
        await registration.set_standing(service.core, "east", Standing.ACTIVE, "")
        service.core.fleet.update(older)
        assert service.core.fleet.member("east").cluster.standing is Standing.ACTIVE


async def test_an_agent_with_another_journal_cannot_say_that_an_attempt_never_ran(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        await says(service, 1, want=1)
        [ref] = [offer.ref for offer in (await says(service, 2, want=1)).offers]
        await says(service, 3, accepts=(ref,))
        stranger = sync_request("east", "e2", 1, rejects=((ref, "absent: this agent never took it"),))
        clock.advance(1_000.0)  # so long that the first agent is missed
        await service.agents.sync(stranger, "server")
        assert await state(service, job.id) is JobState.FAILED


async def test_a_job_given_to_a_full_cluster_takes_what_becomes_free_there(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        fleet, request = service.core.fleet, prepare(a_request(cores=3))
        fleet.place("east", "first", request, "ana")
        fleet.place("east", "later", request, "ana")
        fleet.release("east", "first")
        [receipt] = await submit(service, a_submission(cores=2))
        assert receipt.state is JobState.HELD
        fleet.release("east", "later")
        await service.scheduling_loop.decide_pending()
        assert await state(service, receipt.id) is JobState.BOUND


async def test_a_released_job_still_waits_for_other_jobs_and_for_its_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [first] = await submit(service, a_submission())
        terms = Terms(hold=True, start_after=clock.now() + 100.0)
        patient = replace(a_submission(terms=terms), waits_for=(Dependency("afterany", first.id),))
        [job] = await submit(service, patient)
        holds = []
        for come in (
            lambda: jobs.release(service.core, job.id, ADMIN),
            lambda: jobs.cancel(service.core, [first.id], None, ADMIN, ""),
        ):
            await come()
            await service.scheduling_loop.decide_pending()
            holds.append((await jobs.get(service.core, job.id, ADMIN)).job.hold)
        assert holds == [Hold.DEPENDENCY, Hold.TIME]
        clock.advance(100.0)
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.BOUND


async def test_agents_that_all_lost_their_journals_are_not_locked_out_for_ever(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        for name in ("east", "west"):
            await with_cluster(service, name)
            await service.agents.sync(sync_request(name, "old.1", 1, manager="sim"), "server")
        for _ in range(20):  # all are silent at once, so all get fresh grace, again and again
            clock.advance(10.0)
            await service.timers.tick()
        await service.agents.sync(sync_request("east", "new.1", 1, manager="sim"), "server")
