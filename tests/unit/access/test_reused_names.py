"""A name that comes back belongs to another cluster: it gets nothing that waited for the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection
from tests.support.manual_clock import ManualClock
from tests.support.service import a_service, a_submission, submit, with_cluster


@pytest.mark.parametrize("opened", [("doomed",), ("other", "doomed")])
async def test_a_new_cluster_of_an_old_name_gets_none_of_its_jobs(tmp_path: Path, opened: tuple[str, ...]) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "doomed")
        [job] = await submit(service, a_submission("submitter:doomed", terms=Terms(opened=opened)))
        assert job.cluster == "doomed"
        await registration.delete(service.core, "doomed")
        await with_cluster(service, "doomed")
        await service.scheduling_loop.decide_pending()
        found = await service.core.store.read(lambda tx: tx.job(job.id))
        assert found is not None
        assert found.state is JobState.HELD


async def test_a_job_that_may_go_anywhere_may_go_to_the_new_one(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "doomed")
        [job] = await submit(service, a_submission("ana", terms=Terms(opened=("doom*",))))
        await registration.delete(service.core, "doomed")
        await with_cluster(service, "doomed")
        await service.scheduling_loop.decide_pending()
        found = await service.core.store.read(lambda tx: tx.job(job.id))
        assert found is not None
        assert found.cluster == "doomed"


async def test_the_agent_of_a_new_cluster_sees_none_of_the_old_ones_jobs(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "doomed")
        [old] = await submit(service, a_submission("ana"))
        clock.advance(1)
        await registration.delete(service.core, "doomed")
        clock.advance(1)
        await with_cluster(service, "doomed")
        agent = Principal(name="cluster:doomed", kind=CredentialKind.AGENT, scopes=frozenset({"agent:doomed"}))
        with pytest.raises(NotFound):
            await jobs.get(service.core, old.id, agent)
        assert await jobs.listed(service.core, JobSelection(), agent, before=0, limit=10) == []
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, old.id, agent)).job.cluster == "doomed"  # now it was given to this one
