"""A machine that sleeps was down meanwhile: clocks are right when it wakes, and nobody is blamed for its silence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clock import AnchoredClock
from rainbow_sched.service.views import jobs
from tests.support.agents import Agent
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

NIGHT = 8 * 3_600.0


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


def test_the_clock_stands_still_while_the_machine_sleeps_and_is_set_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = AnchoredClock()
    assert clock.seconds_slept() == 0.0
    real = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: real(which) + NIGHT)
    before = clock.now()
    assert clock.seconds_slept() == pytest.approx(NIGHT, abs=0.5)
    assert clock.now() - before == pytest.approx(NIGHT, abs=0.5)
    assert clock.seconds_slept() == 0.0


async def test_a_night_is_nobodys_silence(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        [runs] = await submit(service, a_submission(terms=Terms(delivery=Delivery.AT_LEAST_ONCE, retries=3)))
        [offered] = await submit(service, a_submission())
        agent = Agent(service, "east")
        await agent.runs()
        await agent.says(want=1)
        clock.sleep(NIGHT)
        for _ in range(2):
            await service.timers.tick()
            clock.advance(1.0)
        assert service.core.fleet.member("east").cluster.standing is Standing.ACTIVE
        views = [await jobs.get(service.core, job.id, ADMIN) for job in (runs, offered)]
        assert [(view.job.state, view.job.attempt) for view in views] == [(JobState.BOUND, 1)] * 2
        assert not service.core.presence.is_gone("east", clock.now()), "nobody else speaks for it"


async def test_times_that_came_in_the_night_have_come(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        [late] = await submit(service, a_submission(terms=Terms(deadline=clock.now() + 3_600.0)))
        [early] = await submit(service, a_submission(terms=Terms(start_after=clock.now() + 3_600.0)))
        clock.sleep(NIGHT)
        await service.timers.tick()
        assert [await state(service, job.id) for job in (late, early)] == [JobState.EXPIRED, JobState.QUEUED]
