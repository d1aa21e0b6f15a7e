"""A job that waits for the start of another goes on when that one starts, not when it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.effects import MAX_DEPENDENTS_PER_WRITE
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency
from tests.support.agents import Agent
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def states(service: Service, ids: list[int]) -> set[JobState]:
    return {(await jobs.get(service.core, id, ADMIN)).job.state for id in ids}


@pytest.mark.parametrize("count", [1, MAX_DEPENDENTS_PER_WRITE + 5])
async def test_jobs_that_wait_for_a_start_go_on_with_it(tmp_path: Path, count: int) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=600)
        [first] = await submit(service, a_submission())
        waits = (Dependency("after", first.id),)
        waiting = [job.id for job in await submit(service, *[replace(a_submission(), waits_for=waits)] * count)]
        assert await states(service, waiting) == {JobState.HELD}
        await Agent(service, "east").runs()
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        assert await states(service, waiting) == {JobState.BOUND}


async def test_a_start_releases_only_those_that_wait_for_a_start(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=8)
        [first] = await submit(service, a_submission())
        [held] = await submit(service, a_submission(terms=Terms(hold=True)))
        mixed = (Dependency("after", first.id), Dependency("afterany", held.id))
        waiting = [
            (await submit(service, replace(a_submission(), waits_for=waits)))[0].id
            for waits in ((Dependency("afterok", first.id),), mixed)
        ]
        await Agent(service, "east").runs()
        await service.scheduling_loop.decide_pending()
        assert await states(service, waiting) == {JobState.HELD}
