"""Runs on silent clusters: how long they are waited for, what becomes of them, and what a late word changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict, Invalid
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, Report
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from tests.support.agents import Agent, kills
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

AGAIN = Terms(reruns=1)
RUN_LEASE = Settings().run_lease
GIVEN_UP = 400.0


async def one_running(service: Service, terms: Terms, *, guards: bool = True) -> tuple[Agent, AttemptRef]:
    """A job that runs on the only cluster."""
    await with_cluster(service, "east")
    await submit(service, a_submission(terms=terms))
    agent = Agent(service, "east", guards=guards)
    return agent, await agent.runs()


async def silent(service: Service, clock: ManualClock, seconds: float) -> None:
    """Nobody speaks for so long; the timers run all the while."""
    clock.advance(200.0)
    await service.timers.tick()
    clock.advance(seconds - 200.0)
    await service.timers.tick()
    await service.timers.tick()


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


async def test_without_the_owners_word_a_run_is_waited_for_for_ever(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        _, ref = await one_running(service, Terms())
        await silent(service, clock, 1_000_000.0)
        view = await jobs.get(service.core, ref.job, ADMIN)
        assert view.job.state is JobState.BOUND
        assert view.attempt is not None
        assert view.attempt.suspect


async def test_a_run_is_given_up_when_its_owner_would_wait_no_longer_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        agent, ref = await one_running(service, Terms(lost_after=GIVEN_UP))
        await silent(service, clock, GIVEN_UP - 1)
        assert await state(service, ref.job) is JobState.BOUND
        clock.advance(2)
        await service.timers.tick()
        view = await jobs.get(service.core, ref.job, ADMIN)
        assert view.job.state is JobState.FAILED, "at most once: it is never run again"
        assert view.attempt is not None
        assert (view.attempt.state, view.attempt.failure) == (AttemptState.LOST, Failure.LOST)
        out = await agent.says(held=((ref, "running"),))
        assert kills(out) == [ref], "the job is over; what is left of it is ended"


@pytest.mark.parametrize(
    ("terms", "guards", "following"),
    [
        (AGAIN, True, JobState.QUEUED),
        (Terms(delivery=Delivery.AT_LEAST_ONCE), True, JobState.QUEUED),
        (AGAIN, False, JobState.BOUND),
        (Terms(reruns=1, lost_after=GIVEN_UP), False, JobState.FAILED),
        (Terms(retries=1, lost_after=GIVEN_UP), True, JobState.FAILED),
    ],
    ids=["again", "no number", "no guard", "no guard, but the owner's word", "retries only"],
)
async def test_it_runs_again_only_if_it_may_and_surely_does_not_run(
    tmp_path: Path, terms: Terms, guards: bool, following: JobState
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        _, ref = await one_running(service, terms, guards=guards)
        await silent(service, clock, RUN_LEASE + 1)
        assert await state(service, ref.job) is following


@pytest.mark.parametrize("heard_of", [False, True])
async def test_each_lost_run_uses_a_rerun_and_no_retry_even_if_it_is_heard_of_later(
    tmp_path: Path, heard_of: bool
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        names = [f"c{i}" for i in range(4)]
        for name in names:
            await with_cluster(service, name)
        [job] = await submit(service, a_submission(terms=Terms(reruns=2, retries=1)))
        for n in (1, 2, 3):
            agent = Agent(service, (await jobs.get(service.core, job.id, ADMIN)).job.cluster)
            ref = await agent.runs()
            assert ref.n == n
            await silent(service, clock, RUN_LEASE + 1)
            if heard_of and n < 3:
                failed = Report(ref=ref, state=AttemptState.FAILED, exit_code=1, failure=Failure.EXIT)
                assert (await agent.says(reports=(failed,))).acked == (ref,)
            await service.scheduling_loop.decide_pending()
        last = (await jobs.get(service.core, job.id, ADMIN)).job
        assert (last.state, last.attempt) == (JobState.FAILED, 3)
        assert (last.failures, last.reruns_used) == (0, 2)


async def test_a_late_success_is_the_jobs_unless_it_was_begun_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        agent, ref = await one_running(service, AGAIN)
        await silent(service, clock, RUN_LEASE + 1)
        await with_cluster(service, "west")
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, ref.job, ADMIN)).job.cluster == "west"
        done = Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0)
        assert (await agent.says(reports=(done,))).acked == (ref,)
        view = await jobs.get(service.core, ref.job, ADMIN)
        assert (view.job.state, view.job.cluster, view.job.attempt) == (JobState.SUCCEEDED, "east", 1)
        assert (await Agent(service, "west").says(want=1)).offers == ()
        assert service.core.fleet.member("west").placements == {}


async def test_a_late_success_changes_nothing_once_a_newer_run_was_accepted(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        agent, ref = await one_running(service, AGAIN)
        await silent(service, clock, RUN_LEASE + 1)
        await with_cluster(service, "west")
        await service.scheduling_loop.decide_pending()
        second = await Agent(service, "west").runs()
        assert (second.job, second.n) == (ref.job, 2)
        await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
        view = await jobs.get(service.core, ref.job, ADMIN)
        assert (view.job.state, view.job.cluster) == (JobState.BOUND, "west")
        first = await service.core.store.read(lambda tx: tx.attempt(ref.job, 1))
        assert first is not None
        assert first.state is AttemptState.SUCCEEDED, "its end is noted all the same"


async def test_a_restart_of_the_server_gives_runs_their_whole_time_again(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        _, ref = await one_running(service, Terms(lost_after=GIVEN_UP))
        clock.advance(GIVEN_UP - 10)
    async with a_service(tmp_path, clock=clock) as service:
        await silent(service, clock, GIVEN_UP - 10)
        assert await state(service, ref.job) is JobState.BOUND
        clock.advance(20)
        await service.timers.tick()
        assert await state(service, ref.job) is JobState.FAILED


async def test_a_time_so_short_that_healthy_runs_would_be_given_up_is_refused(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        with pytest.raises(Invalid, match="300 s"):
            await submit(service, a_submission(terms=Terms(lost_after=60.0)))
    with pytest.raises(Invalid, match="lost_after"):
        Terms(lost_after=0.0)


async def test_a_process_that_was_followed_is_refused_after_a_restart_of_the_server_too(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await Agent(service, "east", epoch="j.first").says()
        await Agent(service, "east", epoch="j.second").says()
    async with a_service(tmp_path) as service:
        with pytest.raises(Conflict, match="was superseded by another"):
            await Agent(service, "east", epoch="j.first").says()
        await Agent(service, "east", epoch="j.second").says()


async def test_when_most_fall_silent_together_they_get_grace_once_and_not_for_ever(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        names = ("east", "west")
        for name in names:
            await with_cluster(service, name)
            await Agent(service, name).says()
        clock.advance(100.0)
        await service.timers.tick()
        standings = {name: service.core.fleet.member(name).cluster.standing for name in names}
        assert set(standings.values()) == {Standing.ACTIVE}, "it may be our own network"
        clock.advance(100.0)
        await service.timers.tick()
        standings = {name: service.core.fleet.member(name).cluster.standing for name in names}
        assert set(standings.values()) == {Standing.UNREACHABLE}
