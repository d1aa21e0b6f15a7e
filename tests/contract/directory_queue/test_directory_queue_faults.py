"""What a new batch system gets from the base when things go wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rainbow_sched.agent.core.values import Phase, Unknown
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.errors import Unavailable
from tests.support.backends import Desk, a_launch, a_request
from tests.support.directory_queue import DirectoryQueue


async def test_a_manager_that_does_not_answer_decides_nothing(desk: Desk, manager: DirectoryQueue):
    tag = await desk.submit(a_request("sleep", "0.2"))
    manager.stop()
    assert isinstance(await desk.backend.lookup(tag), Unknown)
    for call in (desk.backend.poll(), desk.backend.cancel(tag), desk.submit(a_request("true"), job=2)):
        with pytest.raises(Unavailable):
            await call
    manager.start()
    assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED
    assert (await desk.run(a_request("true"), job=2)).result.state is AttemptState.SUCCEEDED


async def test_a_job_that_the_manager_has_twice_runs_once(desk: Desk, manager: DirectoryQueue):
    launch = a_launch(a_request("sh", "-c", f"echo ran >> {desk.directory}/runs"))
    await desk.backend.submit(launch)
    first = await desk.until(launch.tag, Phase.ENDED)
    folder = desk.backend.folder(launch.tag)
    plan = await desk.backend.plan(launch.request, launch.allowed)
    again = await desk.backend.hand_over(launch, plan, folder.record())
    folder.put(replace(folder.record(), native=""))  # as after an agent that died before it wrote the id
    await desk.again()
    assert (await desk.until(launch.tag, Phase.ENDED)).native == first.native == await desk.backend.submit(launch)

    async def second_has_ended() -> bool:
        jobs = (await desk.backend.jobs())[launch.tag]
        return next(job for job in jobs if job.native == again).phase is Phase.ENDED

    await desk.wait(second_has_ended)
    assert (desk.directory / "runs").read_text() == "ran\n"
