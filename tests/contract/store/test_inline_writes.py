"""Brief works may run in the caller's thread; everything that is promised of a work holds for them, too."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rainbow_sched.model.errors import Conflict, Unavailable
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store import Store, Tx, open_store
from rainbow_sched.store.base import JobSelection
from tests.contract.store.builders import a_draft, flat


async def test_brief_works_and_others_leave_no_gap_and_no_trace_of_those_that_fail(store: Store) -> None:
    async def one(i: int) -> bool:
        def work(tx: Tx) -> None:
            (id,) = tx.add_jobs([a_draft(name=f"job{i}")])
            job = tx.job(id)
            assert job is not None
            tx.update_job(job, JobEvent.UPDATED, 1.0)
            if i % 5 == 0:
                raise Conflict("on purpose")

        try:
            await store.write(work, brief=i % 3 != 0)
        except Conflict:
            return False
        return True

    stored = await asyncio.gather(*[one(i) for i in range(120)])
    assert stored == [i % 5 != 0 for i in range(120)]
    jobs = await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=200))
    assert sorted(job.name for job in jobs) == sorted(f"job{i}" for i in range(120) if i % 5)
    assert [job.id for job in jobs] == list(range(len(jobs), 0, -1))
    events = await store.read(lambda tx: tx.events(0, 1000))
    assert [event.seq for event in events] == list(range(1, 2 * len(jobs) + 1))


async def test_a_brief_work_comes_after_the_one_that_is_under_way(store: Store) -> None:
    inside, gate = threading.Event(), threading.Event()

    def slow(tx: Tx) -> list[int]:
        inside.set()
        gate.wait(10)
        return tx.add_jobs([a_draft()])

    first = asyncio.create_task(store.write(slow))
    await asyncio.to_thread(inside.wait, 10)
    brief = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]), brief=True)) for _ in range(3)]
    await asyncio.sleep(0)  # let them ask
    assert not any(task.done() for task in brief)  # and the event loop goes on
    gate.set()
    assert flat([await first, *await asyncio.gather(*brief)]) == [1, 2, 3, 4]


async def test_what_a_brief_work_wrote_is_seen_only_when_it_is_durable(store: Store) -> None:
    for n in range(1, 30):
        await store.write(lambda tx: tx.add_jobs([a_draft()]), brief=True)
        assert await store.read(lambda tx: tx.last_seq()) == n


async def test_closing_finishes_brief_works_and_then_refuses(url: str) -> None:
    store = await open_store(url)
    asked = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]), brief=True)) for _ in range(20)]
    await asyncio.sleep(0)  # let the tasks ask
    await store.close()
    assert len(await asyncio.gather(*asked)) == 20
    with pytest.raises(Unavailable):
        await store.write(lambda tx: tx.last_seq(), brief=True)
    again = await open_store(url)
    assert await again.read(lambda tx: tx.last_seq()) == 20
    await again.close()
