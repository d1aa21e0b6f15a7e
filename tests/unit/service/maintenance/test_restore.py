"""A database that is an older copy of itself: nothing runs twice, and what the clusters know is taken in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Conflict, NotFound
from rainbow_sched.model.generation import MIN_SKIPPED_IDS, SKIPPED_ATTEMPTS
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import KnownAttempt, Report
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.views import jobs
from tests.support.agents import kills
from tests.support.manual_clock import ManualClock
from tests.support.restored import Agent, copied, ended, job_of, put_back, running, serving
from tests.support.service import ADMIN, a_submission, submit, with_cluster


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_job_that_ended_since_the_copy_is_not_run_again(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        [job] = await submit(before, a_submission())
        copy = copied(tmp_path)
        ref = await agent.takes(before)
        await agent.says(before, reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await after.scheduling_loop.decide_pending()
        await agent.recalls(after, ended(ref))
        assert (await job_of(after, job.id)).state is JobState.SUCCEEDED
        assert (await agent.says(after, want=5)).offers == ()
        [new] = await submit(after, a_submission())
        assert new.id > MIN_SKIPPED_IDS


async def test_an_id_that_was_given_again_before_the_restore_was_noticed_is_two_jobs(
    tmp_path: Path, clock: ManualClock
) -> None:
    """The copy was put back by hand: jobs were submitted before an agent came that knows others of the same ids."""
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east", nodes=1, cores=3)
        [old] = await submit(before, a_submission())
        copy = copied(tmp_path)
        await submit(before, a_submission(), a_submission())
        refs = [await agent.takes(before) for _ in range(3)]
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        later = Terms(start_after=clock.now() + 1_000.0)
        new = await submit(after, *[a_submission(terms=later) for _ in refs[1:]])
        assert [job.id for job in new] == [ref.job for ref in refs[1:]]
        held = ((refs[2], "running"),)
        out = await agent.recalls(after, ended(refs[0]), ended(refs[1]), running(refs[2]), held=held)
        assert kills(out) == [refs[2]], "nobody knows what it is"
        assert (await job_of(after, old.id)).state is JobState.SUCCEEDED
        assert [(await job_of(after, job.id)).hold for job in new] == [Hold.TIME, Hold.TIME]
        clock.advance(1_000.0)
        await after.timers.tick()
        await after.scheduling_loop.decide_pending()
        assert {(await agent.takes(after)).job for _ in new} == {job.id for job in new}
        found = {(one.job, one.kind) for _, one in (await restore.status(after.core)).findings}
        assert found == {(old.id, "started"), (old.id, "ended"), (new[0].id, "lost-job"), (new[1].id, "killed")}


async def test_a_queued_job_waits_until_every_cluster_has_reported(tmp_path: Path, clock: ManualClock) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name, nodes=1, cores=1)
        await submit(before, a_submission(), a_submission(), a_submission())
        copy = copied(tmp_path)  # jobs 1 and 2 are offered, job 3 waits for room
        refs = {agent.cluster: await agent.takes(before) for agent in (east, west)}
        for agent in (east, west):
            done = Report(ref=refs[agent.cluster], state=AttemptState.SUCCEEDED, exit_code=0)
            await agent.says(before, reports=(done,))
        await before.scheduling_loop.decide_pending()
        third = (await job_of(before, 3)).cluster
        last = east if third == "east" else west
        first = west if last is east else east
        ref = await last.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await after.scheduling_loop.decide_pending()
        await first.recalls(after, ended(refs[first.cluster]))
        held = await job_of(after, 3)
        assert (held.state, held.hold) == (JobState.HELD, Hold.RESTORED)
        assert last.cluster in held.reason
        with pytest.raises(Conflict, match="cannot be released yet"):
            await jobs.release(after.core, 3, ADMIN)
        assert (await first.says(after, want=5)).offers == ()
        await last.recalls(after, ended(refs[last.cluster]), running(ref))
        found = await job_of(after, 3)
        assert (found.state, found.cluster, found.attempt) == (JobState.BOUND, last.cluster, 1)
        assert ref.token in after.core.fleet.member(last.cluster).placements, "it takes its room"
        await last.says(after, reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
        assert (await job_of(after, 3)).state is JobState.SUCCEEDED


async def test_a_job_that_nobody_has_run_goes_on_when_all_have_reported(tmp_path: Path, clock: ManualClock) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name, nodes=1, cores=1)
        await submit(before, a_submission(), a_submission(), a_submission())
        copy = copied(tmp_path)
        one, two = await east.takes(before), await west.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await east.recalls(after, running(one))
        assert (await job_of(after, one.job)).state is JobState.BOUND
        assert (await job_of(after, 3)).hold is Hold.RESTORED
        await west.recalls(after, running(two))
        assert (await job_of(after, 3)).hold is Hold.NOTHING_FITS, "it waits for room now"
        await east.says(after, reports=(Report(ref=one, state=AttemptState.SUCCEEDED, exit_code=0),))
        await after.scheduling_loop.decide_pending()
        assert (await job_of(after, 3)).attempt == SKIPPED_ATTEMPTS + 1


async def test_a_newer_attempt_takes_the_place_of_the_one_in_the_copy(tmp_path: Path, clock: ManualClock) -> None:
    east, west = Agent("east"), Agent("west")
    async with serving(tmp_path, clock) as before:
        for name in ("east", "west"):
            await with_cluster(before, name)
        [job] = await submit(before, a_submission(terms=Terms(retries=2)))
        first = await east.takes(before)
        copy = copied(tmp_path)  # attempt 1 is accepted on east
        failed = Report(ref=first, state=AttemptState.FAILED, failure=Failure.LAUNCH)
        await east.says(before, reports=(failed,))
        await before.scheduling_loop.decide_pending()
        second = await west.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        await west.recalls(after, running(second))
        view = await jobs.get(after.core, job.id, ADMIN)
        assert (view.job.state, view.job.cluster, view.job.attempt) == (JobState.BOUND, "west", 2)
        await east.recalls(after, ended(first, AttemptState.FAILED))
        assert (await job_of(after, job.id)).cluster == "west", "the older attempt moves nothing"
        await west.says(after, reports=(Report(ref=second, state=AttemptState.SUCCEEDED, exit_code=0),))
        assert (await job_of(after, job.id)).state is JobState.SUCCEEDED


async def test_the_older_of_two_unknown_attempts_never_counts(tmp_path: Path, clock: ManualClock) -> None:
    """Whichever agent reports first: the newer attempt is the job's, the older one is ended."""
    for order in ("east first", "west first"):
        folder = tmp_path / order
        folder.mkdir()
        east, west = Agent("east"), Agent("west")
        async with serving(folder, clock) as before:
            for name in ("east", "west"):
                await with_cluster(before, name)
            [job] = await submit(before, a_submission(terms=Terms(hold=True, retries=2)))
            copy = copied(folder)
            await jobs.release(before.core, job.id, ADMIN)
            await before.scheduling_loop.decide_pending()
            first = await east.takes(before)
            await east.says(before, reports=(Report(ref=first, state=AttemptState.FAILED, failure=Failure.LAUNCH),))
            await before.scheduling_loop.decide_pending()
            second = await west.takes(before)
        put_back(folder, copy)
        told = {"east": ended(first, AttemptState.FAILED), "west": running(second)}
        async with serving(folder, clock, seed=2) as after:
            for agent in (east, west) if order == "east first" else (west, east):
                await agent.recalls(after, told[agent.cluster])
            found = await job_of(after, job.id)
            assert (found.state, found.cluster, found.attempt) == (JobState.BOUND, "west", 2), order


async def test_a_job_that_the_copy_does_not_know_is_found_with_its_run(tmp_path: Path, clock: ManualClock) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        copy = copied(tmp_path)
        await submit(before, a_submission(), a_submission(), a_submission())
        one, two, three = [await agent.takes(before) for _ in range(3)]
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        nameless = KnownAttempt(ref=three, phase="confirmed")
        held = ((one, "running"), (three, "running"))
        out = await agent.recalls(after, running(one, name="mine"), ended(two), nameless, held=held)
        assert kills(out) == [three], "nobody knows what it is"
        found = await job_of(after, one.job)
        assert (found.name, found.owner, found.state, found.cluster) == ("mine", "ana", JobState.BOUND, "east")
        with pytest.raises(NotFound):
            await job_of(after, two.job)
        seen = await restore.status(after.core)
        assert dict(seen.counts) == {"found-job": 1, "killed": 1, "lost-job": 1}
        await agent.says(after, reports=(Report(ref=one, state=AttemptState.RETURNED, reason="lost"),))
        assert (await job_of(after, one.job)).state is JobState.FAILED, "only its agent vouches for it"


@pytest.mark.parametrize(
    "bad", [{"spec": "{"}, {"spec": ""}, {"owner": ""}, {"owner": "x" * 1000}, {"terms": "[]"}, {"terms": "{" * 9999}]
)
async def test_a_job_that_makes_no_sense_is_not_taken_in(
    tmp_path: Path, clock: ManualClock, bad: dict[str, str]
) -> None:
    agent = Agent()
    async with serving(tmp_path, clock) as before:
        await with_cluster(before, "east")
        copy = copied(tmp_path)
        [job] = await submit(before, a_submission())
        ref = await agent.takes(before)
    put_back(tmp_path, copy)
    async with serving(tmp_path, clock, seed=2) as after:
        out = await agent.recalls(after, running(ref, **bad), held=((ref, "running"),))
        assert kills(out) == [ref]
        with pytest.raises(NotFound):
            await job_of(after, job.id)
