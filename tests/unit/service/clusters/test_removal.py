"""A cluster with jobs on it is removed safely: nothing is lost, doubled or left behind, whatever runs there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Conflict, Invalid, NotFound, Unauthenticated
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, Report
from rainbow_sched.service.access.audit import act_as
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.clusters.registration import set_standing
from rainbow_sched.service.views import jobs
from tests.support.agents import Agent
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster

CLUSTER = Principal(name="east", kind=CredentialKind.AGENT, scopes=frozenset({"agent:east"}))


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with a_service(tmp_path) as made:
        act_as(ADMIN, "")
        yield made


async def one_running(service: Service) -> tuple[Agent, AttemptRef, int]:
    """A cluster that runs one job and was offered another."""
    await with_cluster(service, "east")
    await submit(service, a_submission())
    agent = Agent(service, "east")
    ref = await agent.runs()
    [waits] = await submit(service, a_submission())
    return agent, ref, waits.id


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


async def test_while_jobs_run_there_it_is_not_removed_by_accident(service: Service) -> None:
    _, ref, waits = await one_running(service)
    with pytest.raises(Conflict, match="1 job runs on east: delete it with --jobs wait"):
        await registration.delete(service.core, "east")
    with pytest.raises(Invalid, match="wait, cancel or lose"):
        await registration.delete(service.core, "east", "maybe")
    assert [await state(service, id) for id in (ref.job, waits)] == [JobState.BOUND] * 2
    assert service.core.fleet.member("east").cluster.standing is Standing.ACTIVE


async def test_it_leaves_when_what_runs_has_ended_and_its_agent_can_tell_how(service: Service) -> None:
    agent, ref, waits = await one_running(service)
    left = await registration.delete(service.core, "east", "wait")
    assert (left.moved, left.running) == (1, 1)
    assert await state(service, waits) is JobState.QUEUED, "what had not begun goes elsewhere"
    await service.timers.tick()
    assert service.core.fleet.member("east").cluster.standing is Standing.LEAVING
    assert (await agent.says(want=5)).offers == ()
    await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
    assert await state(service, ref.job) is JobState.SUCCEEDED
    await service.timers.tick()
    assert service.core.fleet.get("east") is None
    with pytest.raises(NotFound):
        await agent.says()


async def test_jobs_are_cancelled_and_confirmed_before_it_goes(service: Service) -> None:
    agent, ref, _ = await one_running(service)
    await registration.delete(service.core, "east", "cancel")
    assert await state(service, ref.job) is JobState.CANCELLING
    await service.timers.tick()
    assert service.core.fleet.get("east") is not None, "it has not confirmed yet"
    [command] = (await agent.says(held=((ref, "running"),))).commands
    assert (command.ref.job, command.kind) == (ref.job, "cancel")
    await agent.says(acks=(command.id,), reports=(Report(ref=ref, state=AttemptState.CANCELLED),))
    assert await state(service, ref.job) is JobState.CANCELLED
    await service.timers.tick()
    assert service.core.fleet.get("east") is None


async def test_a_cluster_that_is_gone_for_good_takes_its_jobs_with_it(service: Service) -> None:
    _, ref, _ = await one_running(service)
    await registration.delete(service.core, "east", "lose")
    view = await jobs.get(service.core, ref.job, ADMIN)
    assert (view.job.state, view.job.reason) == (JobState.FAILED, "cluster east was removed while it ran")
    assert service.core.fleet.get("east") is None


async def test_a_restart_does_not_forget_that_it_is_to_leave(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        act_as(ADMIN, "")
        _, ref, _ = await one_running(service)
        await registration.delete(service.core, "east", "wait")
    async with a_service(tmp_path, clock=clock) as service:
        agent = Agent(service, "east", epoch="east.2")
        await agent.says()
        await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
        await service.timers.tick()
        assert service.core.fleet.get("east") is None


async def test_work_can_be_given_to_it_again_before_it_has_left(service: Service) -> None:
    agent, ref, _ = await one_running(service)
    await registration.delete(service.core, "east", "wait")
    await set_standing(service.core, "east", Standing.ACTIVE, "")
    await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
    await service.timers.tick()
    assert service.core.fleet.get("east") is not None


async def test_its_own_secret_never_ends_others_jobs(service: Service) -> None:
    _, ref, _ = await one_running(service)
    act_as(CLUSTER, "")
    for how in ("", "cancel", "lose"):
        with pytest.raises(Conflict, match="let an administrator delete it"):
            await registration.delete(service.core, "east", how)
    assert (await registration.delete(service.core, "east", "wait")).running == 1
    assert await state(service, ref.job) is JobState.BOUND


async def test_its_credentials_go_with_it_and_not_before(service: Service) -> None:
    made = await with_cluster(service, "east")
    await submit(service, a_submission())
    agent = Agent(service, "east")
    ref = await agent.runs()
    await registration.delete(service.core, "east", "wait")
    await service.core.credential_resolver.resolve(made.secret, service.core.clock.now())
    await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),))
    await service.timers.tick()
    with pytest.raises(Unauthenticated):
        await service.core.credential_resolver.resolve(made.secret, service.core.clock.now())
