"""Cancelling answers with the jobs as they are then, and where they ran."""

from __future__ import annotations

from pathlib import Path

from rainbow.model.attempt import AttemptState
from rainbow.model.job import JobState
from rainbow.service import jobs
from rainbow.service.sync_messages import Report
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
