"""Cancelling answers with the jobs as they are then, and where they ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import Report
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency
from tests.support.agents import Agent
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def test_a_job_that_runs_is_answered_with_its_id_at_the_cluster(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        agent = Agent(service, "east")
        ref = await agent.runs()
        await agent.says(reports=(Report(ref=ref, state=AttemptState.RUNNING, native_id="88123"),))
        [view] = await jobs.cancel(service.core, [job.id], None, ADMIN, "")
        assert view.job.state is JobState.CANCELLING
        assert view.attempt is not None
        assert view.attempt.native_id == "88123"


async def test_jobs_that_had_ended_or_were_being_cancelled_before_are_told_as_unchanged(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [runs] = await submit(service, a_submission())
        ref = await (agent := Agent(service, "east")).runs()
        await agent.says(reports=(Report(ref=ref, state=AttemptState.RUNNING),))
        [waits] = await submit(service, a_submission())
        first = await jobs.cancel(service.core, [runs.id, waits.id], None, ADMIN, "")
        assert [(view.job.state, view.unchanged) for view in first] == [
            (JobState.CANCELLING, False),
            (JobState.CANCELLED, False),
        ]
        again = await jobs.cancel(service.core, [runs.id, waits.id], None, ADMIN, "")
        assert [view.unchanged for view in again] == [True, True]


async def test_a_job_and_one_that_waits_for_it_are_cancelled_together(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [first] = await submit(service, a_submission())
        [second] = await submit(service, replace(a_submission(), waits_for=(Dependency("afterok", first.id),)))
        [third] = await submit(service, replace(a_submission(), waits_for=(Dependency("afterany", first.id),)))
        views = await jobs.cancel(service.core, [first.id, second.id, third.id], None, ADMIN, "enough")
        assert [view.job.state for view in views] == [JobState.CANCELLED] * 3
        assert [view.job.reason for view in views] == ["enough"] * 3
