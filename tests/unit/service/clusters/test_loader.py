"""After a commit whose answer was lost, the memory is brought up to what is stored, whoever asks again or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Unconfirmed
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, Report
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.submission.intake import MAX_JOBS_PER_SHARED_WRITE
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import Dependency, JobSelection
from tests.support.agents import Agent
from tests.support.service import ADMIN, a_graph, a_service, a_submission, submit, with_cluster


@pytest.fixture
def lose_commit(monkeypatch: pytest.MonkeyPatch):
    """Makes the next commit of a service durable, and its answer lost."""

    def arm(service: Service) -> None:
        session = service.core.store._writer.session  # type: ignore[attr-defined]  # the engine has one
        real = session.commit

        def unheard() -> None:
            real()
            monkeypatch.undo()
            raise ConnectionError("on purpose")

        monkeypatch.setattr(session, "commit", unheard)

    return arm


def counted(service: Service, name: str = "east") -> set[str]:
    return set(service.core.fleet.member(name).placements)


async def stored(service: Service, name: str = "east") -> set[str]:
    return {attempt.token for attempt in await service.core.store.read(lambda tx: tx.live_attempts(name))}


async def state(service: Service, id: int) -> JobState:
    return (await jobs.get(service.core, id, ADMIN)).job.state


async def test_jobs_that_were_given_to_a_cluster_in_an_unconfirmed_commit_count_there(
    tmp_path: Path, lose_commit
) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=2)
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await submit(service, a_submission(cores=1), a_submission(cores=1))
        assert counted(service) == set()
        await service.timers.tick()
        assert len(counted(service)) == 2
        assert counted(service) == await stored(service)
        [third] = await submit(service, a_submission(cores=1))
        assert third.state is JobState.HELD, "there is no room for a third"


@pytest.mark.parametrize("count", [1, MAX_JOBS_PER_SHARED_WRITE + 1])
async def test_jobs_that_the_loop_gave_to_a_cluster_in_an_unconfirmed_commit_count_there(
    tmp_path: Path, lose_commit, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("rainbow_sched.service.scheduling.loop.RETRY_SECONDS", 0.0)
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=100)
        made = await submit(service, *[a_submission(terms=Terms(hold=True)) for _ in range(count)])
        for job in made:
            await jobs.release(service.core, job.id, ADMIN)
        lose_commit(service)
        await service.scheduling_loop.decide_pending()
        await service.timers.tick()
        assert len(counted(service)) == count
        assert counted(service) == await stored(service)


async def test_what_ended_unheard_is_free_again_and_the_job_is_decided_again(tmp_path: Path, lose_commit) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await with_cluster(service, "west")
        [job] = await submit(service, a_submission(terms=Terms(not_clusters=("west",))))
        other = (await submit(service, a_submission(terms=Terms(not_clusters=("west",)))))[0]
        agent = Agent(service, "east")
        ref = await agent.runs()
        assert ref.job == job.id
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await agent.says(rejects=((ref, "no room"),))
        assert await state(service, job.id) is JobState.QUEUED
        await service.timers.tick()
        assert ref.token not in counted(service)
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.HELD, "it was looked at: nobody else takes it"
        assert await state(service, other.id) is JobState.BOUND


async def test_what_did_not_end_stays_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        await submit(service, a_submission())
        agent = Agent(service, "east")
        ref = await agent.runs()
        session = service.core.store._writer.session  # type: ignore[attr-defined]  # the engine has one

        def broken() -> None:
            monkeypatch.undo()
            raise ConnectionError("before it was stored")

        monkeypatch.setattr(session, "commit", broken)
        with pytest.raises(Unconfirmed):
            await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED),))
        await service.timers.tick()
        assert counted(service) == await stored(service) == {ref.token}
        await submit(service, a_submission())
        assert len(counted(service)) == 2


async def test_jobs_that_were_stored_unheard_and_wait_are_decided_though_nobody_asks_again(
    tmp_path: Path, lose_commit
) -> None:
    async with a_service(tmp_path) as service:
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await submit(service, *[a_submission() for _ in range(3)])
        await service.timers.tick()
        await with_cluster(service, "east", nodes=8)
        await service.scheduling_loop.decide_pending()
        found = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=10))
        assert [job.state for job in found] == [JobState.BOUND] * 3


async def test_a_cluster_that_was_registered_changed_or_removed_unheard_is_so(tmp_path: Path, lose_commit) -> None:
    async with a_service(tmp_path) as service:
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await registration.register(service.core, "east", a_graph())
        assert service.core.fleet.get("east") is None
        await service.timers.tick()
        [job] = await submit(service, a_submission())
        assert job.cluster == "east"
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await registration.set_standing(service.core, "east", Standing.DRAINING, "maintenance")
        await service.timers.tick()
        assert service.core.fleet.member("east").cluster.standing is Standing.DRAINING
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await registration.delete(service.core, "east")
        await service.timers.tick()
        assert service.core.fleet.get("east") is None
        await service.scheduling_loop.decide_pending()
        assert await state(service, job.id) is JobState.HELD


async def test_jobs_that_waited_for_one_that_ended_unheard_go_on(tmp_path: Path, lose_commit) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [first] = await submit(service, a_submission())
        [second] = await submit(service, replace(a_submission(), waits_for=(Dependency("afterok", first.id),)))
        agent = Agent(service, "east")
        ref: AttemptRef = await agent.runs()
        lose_commit(service)
        with pytest.raises(Unconfirmed):
            await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED),))
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        assert await state(service, second.id) is JobState.BOUND
        assert counted(service) == await stored(service)
