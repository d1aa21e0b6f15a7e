"""A PostgreSQL that crashes and comes back costs nobody an acknowledged job, and two servers share one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store import Store, engine, open_store, writer
from rainbow_sched.store.base import JobSelection
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft, a_job, flat
from tests.support.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def fragile() -> Iterator[Postgres]:
    """A server of its own, since it is crashed."""
    with running_postgres() as server:
        yield server


async def submit_for_ever(store: Store, writer: int, acknowledged: list[int], doubtful: list[str]) -> None:
    for n in range(100_000):
        key = f"{writer}-{n}"
        try:
            draft = a_draft(client_token=key)
            acknowledged += await store.write(lambda tx, draft=draft: tx.add_jobs([draft]))
        except Unavailable:
            doubtful.append(key)


async def test_a_crash_of_the_database_server_loses_nothing_acknowledged(fragile: Postgres) -> None:
    store = await open_store(fragile.new_database())
    acknowledged: list[int] = []
    doubtful: list[str] = []
    writers = [asyncio.create_task(submit_for_ever(store, i, acknowledged, doubtful)) for i in range(8)]
    for _ in range(2):
        goal = len(acknowledged) + 200
        while len(acknowledged) < goal:
            await store.read(lambda tx: tx.last_seq())  # the others write meanwhile
        await asyncio.to_thread(fragile.crash)
        await asyncio.to_thread(fragile.start)
        count = await store.read(lambda tx: sum(tx.count_jobs(JobSelection()).values()))  # a read finds its way back
        assert count >= goal
    for task in writers:
        task.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    await store.write(lambda tx: None)
    ids = await store.read(lambda tx: {job.id for job in tx.list_jobs(JobSelection(), limit=100_000)})
    events = await store.read(lambda tx: [e.seq for e in tx.events(0, 100_000)])
    await store.close()
    assert len(set(acknowledged)) == len(acknowledged) >= 400
    assert set(acknowledged) <= ids
    assert events == list(range(1, len(ids) + 1))
    assert len(doubtful) <= 2 * 8  # only what was being committed when it crashed


async def test_two_servers_write_one_queue_without_gap_or_double(postgres: Postgres) -> None:
    url = postgres.new_database()
    one, two = await open_store(url), await open_store(url)
    await a_cluster(one)

    async def work(store: Store) -> list[int]:
        taken: list[int] = []
        for _ in range(20):
            await store.write(lambda tx: tx.add_jobs([a_bound_draft()]))
            taken += [job.id for _, job in await store.write(lambda tx: tx.lease("perl", 1, "agent", 60.0))]
        return taken

    taken = flat(await asyncio.gather(work(one), work(two), work(one), work(two)))
    assert sorted(taken) == list(range(1, 81))
    assert [e.seq for e in await two.read(lambda tx: tx.events(0, 1000))] == list(range(1, 161))
    mine = await a_job(one)
    assert await two.read(lambda tx: tx.job(mine.id)) == mine
    await one.close()
    await two.close()


async def test_a_database_that_stays_away_is_unavailable_and_works_again_when_it_is_back(
    fragile: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (writer, engine):
        monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.2)
    store = await open_store(fragile.new_database())
    await a_job(store)
    await asyncio.to_thread(fragile.crash)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await store.write(lambda tx: tx.add_jobs([a_draft()]))
        with pytest.raises(Unavailable):
            await store.read(lambda tx: tx.last_seq())
    await asyncio.to_thread(fragile.start)
    assert await store.write(lambda tx: tx.add_jobs([a_draft()])) == [2]
    await asyncio.to_thread(fragile.crash)
    asked = asyncio.create_task(store.write(lambda tx: tx.add_jobs([a_draft()])))
    await asyncio.sleep(0)  # let the task ask
    await store.close()  # an end that was asked for while the database was away is still an end
    with pytest.raises(Unavailable):
        await asked
    await asyncio.to_thread(fragile.start)
