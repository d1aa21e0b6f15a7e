"""Jobs that wait for one another in long chains or great numbers: all are settled, no write is held up by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.effects import MAX_DEPENDENTS_PER_WRITE
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency, JobSelection, Tx
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

ANA = Principal(name="ana", kind=CredentialKind.USER, scopes=frozenset({"job:cancel:own", "job:read:own"}))
LONG = 2 * MAX_DEPENDENTS_PER_WRITE + 300


def waiting(kind: str, *ids: int) -> Submission:
    return replace(a_submission("ana"), waits_for=tuple(Dependency(kind, id) for id in ids))


def states(tx: Tx) -> dict[JobState, int]:
    return {state: n for state, n in tx.count_jobs(JobSelection()).items() if n}


async def test_a_chain_longer_than_any_recursion_ends_with_its_first_job(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        [first] = await submit(service, a_submission("ana", terms=Terms(hold=True)))
        last = first.id
        for _ in range(LONG):
            [job] = await submit(service, waiting("afterok", last))
            last = job.id
        await jobs.cancel(service.core, [first.id], None, ANA, "")
        some = await service.core.store.read(states)
        assert some[JobState.FAILED] == MAX_DEPENDENTS_PER_WRITE, "one transaction takes so many"
        await service.timers.tick()
        assert await service.core.store.read(states) == {JobState.CANCELLED: 1, JobState.FAILED: LONG}


async def test_a_crowd_that_waits_for_one_job_is_let_go_some_at_a_time(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        [first] = await submit(service, a_submission("ana", terms=Terms(hold=True)))
        await submit(service, *(waiting("afternotok", first.id) for _ in range(LONG)))
        await jobs.cancel(service.core, [first.id], None, ANA, "")
        assert (await service.core.store.read(states)).get(JobState.HELD, 0) == LONG - MAX_DEPENDENTS_PER_WRITE
        await service.timers.tick()
        found = await service.core.store.read(states)
        assert found[JobState.QUEUED] == LONG


async def test_what_was_left_over_is_not_lost_in_a_crash(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        [first] = await submit(service, a_submission("ana", terms=Terms(hold=True)))
        await submit(service, *(waiting("afterok", first.id) for _ in range(LONG)))
        await jobs.cancel(service.core, [first.id], None, ANA, "")
    async with a_service(tmp_path) as again:
        await again.timers.tick()
        assert await again.core.store.read(states) == {JobState.CANCELLED: 1, JobState.FAILED: LONG}


async def test_a_job_that_waits_for_two_is_settled_when_both_have_ended(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        two = await submit(service, *(a_submission("ana", terms=Terms(hold=True)) for _ in range(2)))
        [job] = await submit(service, waiting("afterany", *(one.id for one in two)))
        await jobs.cancel(service.core, [two[0].id], None, ANA, "")
        assert (await jobs.get(service.core, job.id, ANA)).job.state is JobState.HELD
        await jobs.cancel(service.core, [two[1].id], None, ANA, "")
        assert (await jobs.get(service.core, job.id, ANA)).job.state is JobState.QUEUED


async def test_jobs_whose_deadline_passes_together_end_though_one_waits_for_another(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        terms = Terms(deadline=clock.now() + 10.0)
        [first] = await submit(service, a_submission(terms=terms))
        [second] = await submit(
            service, replace(a_submission(terms=terms), waits_for=(Dependency("afterok", first.id),))
        )
        [later] = await submit(service, a_submission(terms=Terms(start_after=clock.now() + 10.0)))
        clock.advance(11.0)
        await service.timers.tick()
        ended = [(await jobs.get(service.core, job.id, ADMIN)).job.state for job in (first, second, later)]
        assert ended == [JobState.EXPIRED, JobState.EXPIRED, JobState.QUEUED]
