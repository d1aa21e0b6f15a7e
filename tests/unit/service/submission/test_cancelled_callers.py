"""A submission whose caller hangs up before its turn is not done; one that has begun is done whole."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rainbow_sched.service.scheduling import pending_jobs
from rainbow_sched.store.base import JobSelection
from tests.support.service import a_service, a_submission, submit, with_cluster


async def test_what_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    free = threading.Event()
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha")
        stuck = asyncio.ensure_future(service.core.store.write(lambda tx: free.wait(20)))
        first = asyncio.ensure_future(submit(service, a_submission("first")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is being written
        others = [asyncio.ensure_future(submit(service, a_submission(f"other{n}"))) for n in range(5)]
        await asyncio.sleep(0)
        for one in others[:4]:
            one.cancel()
        await asyncio.sleep(0)
        free.set()
        await stuck
        await first
        await others[4]
        for one in others[:4]:
            with pytest.raises(asyncio.CancelledError):
                await one
        stored = await service.core.store.read(lambda tx: [tx.job(id) for id in range(1, 10)])
        assert [job.owner for job in stored if job is not None] == ["first", "other4"]
        assert (
            len(service.core.fleet.member("alpha").placements) == 2
        )  # what was set aside for the others is free again


async def test_an_internal_error_in_one_answer_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> str:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(pending_jobs, "shape_of", faulty)  # asked for jobs that wait, after the commit
    async with a_service(tmp_path) as service:
        await with_cluster(service, "alpha", nodes=1, cores=4)
        calls = [submit(service, a_submission(cores=cores)) for cores in (1, 64, 1)]
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(answer) for answer in answers] == [RuntimeError] * 3
            await submit(service, a_submission(cores=1))
        stored = await service.core.store.read(lambda tx: tx.list_jobs(JobSelection(), limit=10))
        assert [job.cluster for job in stored] == ["alpha", "alpha", "", "alpha"]
        monkeypatch.undo()
        await service.timers.tick()  # memory is compared with what was stored
        assert len(service.core.fleet.member("alpha").placements) == 3
        assert len(service.core.pending) == 1
