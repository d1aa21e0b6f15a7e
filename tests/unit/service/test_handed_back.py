"""A cluster that hands jobs back keeps its say, and is not asked for ever."""

from __future__ import annotations

import itertools
from pathlib import Path

from rainbow.model.job import JobState
from rainbow.service import jobs
from rainbow.service.clock import ManualClock
from rainbow.service.sync_messages import Ref
from tests.support.agents import Agent
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


async def test_a_cluster_that_hands_a_job_back_is_asked_again_less_and_less_often(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        agent, asked = Agent(service, "east"), []
        for _ in range(6 * 60):
            clock.advance(60.0)
            await service.timers.tick()
            await service.decider.settle()
            for attempt, _ in (await agent.says(want=1)).offers:
                asked.append(clock.now())
                await agent.says(rejects=((Ref(attempt.job, attempt.n, attempt.token), "not now"),))
                await service.decider.settle()
        pauses = [later - sooner for sooner, later in itertools.pairwise(asked)]
        assert pauses[:3] == [60.0, 120.0, 240.0]
        assert 3_600.0 <= pauses[-1] == max(pauses) <= 4_200.0
        view = await jobs.get(service.core, job.id, ADMIN)
        assert view.job.state is JobState.HELD
        assert "handed it back: not now" in view.job.reason
