"""Writers share commits without sharing their failures, and readers never see half of anything."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Conflict, Unavailable
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store import Store, Tx, open_store
from rainbow_sched.store.base import JobSelection, ReadOnly
from rainbow_sched.store.engine import SqlStore
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft, a_job, flat


async def test_queued_works_share_one_commit(store: Store) -> None:
    assert isinstance(store, SqlStore)
    before = store.counts.commits
    gate = threading.Event()
    slow = asyncio.create_task(store.write(lambda tx: gate.wait(10)))
    quick = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]))) for _ in range(50)]
    await asyncio.sleep(0)  # let the tasks ask
    gate.set()
    await slow
    ids = await asyncio.gather(*quick)
    assert sorted(flat(ids)) == list(range(1, 51))
    assert store.counts.commits - before <= 10  # of 51 works; one of them would do on an idle machine


async def test_one_failing_work_does_not_spoil_its_neighbours(store: Store) -> None:
    gate = threading.Event()
    first = asyncio.create_task(store.write(lambda tx: gate.wait(10)))

    def fails(tx: Tx) -> None:
        tx.add_jobs([a_draft(name="never")])
        raise Conflict("on purpose")

    def breaks(tx: Tx) -> None:
        tx.add_jobs([a_draft(name="never")])
        tx.db.run("SELECT * FROM no_such_table")  # type: ignore[attr-defined]

    good = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]))) for _ in range(3)]
    bad = [asyncio.create_task(store.write(work)) for work in (fails, breaks)]
    more = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]))) for _ in range(3)]
    await asyncio.sleep(0)  # let the tasks ask
    gate.set()
    await first
    assert flat(await asyncio.gather(*good, *more)) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(Conflict, match="on purpose"):
        await bad[0]
    with pytest.raises(Exception, match="no_such_table"):
        await bad[1]
    jobs = await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=50))
    assert [(job.id, job.name) for job in jobs] == [(id, "sleep") for id in (6, 5, 4, 3, 2, 1)]
    assert await store.read(lambda tx: [e.seq for e in tx.events(0, 50)]) == [1, 2, 3, 4, 5, 6]


async def test_a_work_that_fails_leaves_nothing_in_any_table(store: Store) -> None:
    await a_cluster(store)

    def everything(tx: Tx) -> None:
        tx.add_cluster("other", 1.0)
        tx.put_graph(1, "", b"graph", 1.0)
        tx.add_jobs([a_bound_draft(decision=StoredDecision("why", "{}"))])
        tx.append_audit(1.0, "a", "", "", "v", "o", "ok", "")
        tx.set_meta("key", "value")
        raise Conflict("undo")

    with pytest.raises(Conflict):
        await store.write(everything)

    def remains(tx: Tx) -> list[object]:
        return [len(tx.clusters()), tx.graphs(1), tx.job(1), tx.last_seq(), tx.audit(0, 9), tx.meta("key")]

    assert await store.read(remains) == [1, {}, None, 0, [], None]
    assert (await a_job(store)).id == 1


async def test_event_numbers_have_no_gap_however_many_write_and_fail_at_once(store: Store) -> None:
    async def one(i: int) -> None:
        def work(tx: Tx) -> None:
            (id,) = tx.add_jobs([a_draft(client_token=f"k{i % 30}")])
            job = tx.job(id)
            assert job is not None
            tx.update_job(job, JobEvent.UPDATED, 1.0)
            if i % 7 == 0:
                raise Conflict("on purpose")

        with contextlib.suppress(Conflict):
            await store.write(work)

    await asyncio.gather(*[one(i) for i in range(80)])
    events = await store.read(lambda tx: tx.events(0, 1000))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    jobs = await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=100))
    assert sorted(job.id for job in jobs) == list(range(1, len(jobs) + 1))
    assert len(events) == 2 * len(jobs) > 0


async def test_a_reader_sees_one_moment_and_waits_for_no_writer(store: Store) -> None:
    await a_job(store)
    inside, finish = threading.Event(), threading.Event()

    def slow_read(tx: Tx) -> tuple[int, int]:
        before = len(tx.list_jobs(JobSelection(), limit=9))
        inside.set()
        finish.wait(10)
        return before, len(tx.list_jobs(JobSelection(), limit=9))

    reading = asyncio.create_task(store.read(slow_read))
    await asyncio.to_thread(inside.wait, 10)
    await a_job(store)  # a write goes through while somebody reads
    finish.set()
    assert await reading == (1, 1)

    def slow_write(tx: Tx) -> int:
        tx.add_jobs([a_draft()])
        inside.set()
        finish.wait(10)
        return len(tx.list_jobs(JobSelection(), limit=9))

    inside.clear()
    finish.clear()
    writing = asyncio.create_task(store.write(slow_write))
    await asyncio.to_thread(inside.wait, 10)
    assert len(await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=9))) == 2
    finish.set()
    assert await writing == 3
    assert len(await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=9))) == 3


async def test_writing_inside_a_read_is_refused(store: Store) -> None:
    for verb in (
        lambda tx: tx.add_jobs([a_draft()]),
        lambda tx: tx.set_meta("a", "b"),
        lambda tx: tx.add_cluster("perl", 1.0),
        lambda tx: tx.append_audit(1.0, "", "", "", "", "", "", ""),
    ):
        with pytest.raises(ReadOnly):
            await store.read(verb)
    assert await store.read(lambda tx: tx.last_seq()) == 0


async def test_closing_finishes_what_was_asked_and_then_refuses(url: str) -> None:
    store = await open_store(url)
    asked = [asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()]))) for _ in range(20)]
    await asyncio.sleep(0)  # let the tasks ask
    await store.close()
    await store.close()
    assert len(await asyncio.gather(*asked)) == 20
    with pytest.raises(Unavailable):
        await store.write(lambda tx: tx.last_seq())
    with pytest.raises(Unavailable):
        await store.read(lambda tx: tx.last_seq())
    again = await open_store(url)
    assert await again.read(lambda tx: tx.last_seq()) == 20
    await again.close()


async def test_a_caller_that_gives_up_does_not_disturb_the_others(store: Store) -> None:
    gate = threading.Event()
    first = asyncio.create_task(store.write(lambda tx: gate.wait(10)))
    impatient = asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()])))
    patient = asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()])))
    await asyncio.sleep(0)  # let the tasks ask
    impatient.cancel()
    gate.set()
    await first
    assert await patient == [2]
    assert await store.read(lambda tx: tx.last_seq()) == 2


async def test_a_work_that_runs_past_an_iterator_fails_alone(store: Store) -> None:
    with pytest.raises(RuntimeError, match="iterator"):
        await store.write(lambda tx: next(iter(())))
    assert (await a_job(store)).id == 1
