"""The cache of the writing session agrees with the database, also after failed works."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Conflict, NotFound
from rainbow_sched.model.job import Terms
from rainbow_sched.store import Store, Tx, open_store
from rainbow_sched.store.base import JobSelection
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft
from tests.support.postgres import Postgres


async def together(store: Store, *works: object) -> list[object]:
    """The answers of works that share one commit."""
    gate = threading.Event()
    first = asyncio.create_task(store.write(lambda tx: gate.wait(10)))
    asked = [asyncio.create_task(store.write(work)) for work in works]  # type: ignore[arg-type]  # each has its own type
    await asyncio.sleep(0)  # let the tasks ask
    gate.set()
    await first
    return await asyncio.gather(*asked, return_exceptions=True)


def failing(tx: Tx) -> None:
    """Touch everything that is remembered, then fail."""
    tx.add_cluster("gone", 1.0)
    tx.add_jobs([a_bound_draft("gone", spec="never", decision=StoredDecision("why", "never, too"))])
    tx.append_audit(1.0, "a", "", "", "v", "never", "ok", "")
    raise Conflict("on purpose")


def good(tx: Tx) -> int:
    tx.append_audit(1.0, "a", "", "", "v", "o", "ok", "")
    return tx.add_jobs([a_bound_draft(decision=StoredDecision("why", "{}"))])[0]


async def nothing_of_it(store: Store, spec: str) -> None:
    """See that what failed is not taken for stored, and that the next jobs are."""
    with pytest.raises(NotFound, match="no cluster is named 'gone'"):
        await store.write(lambda tx: tx.add_jobs([a_bound_draft("gone")]))
    ids = await store.write(lambda tx: tx.add_jobs([a_draft(spec=spec), a_draft(spec="never")]))
    assert [job.spec for job in await store.read(lambda tx: tx.jobs(ids))] == [spec, "never"]
    await store.write(lambda tx: tx.append_audit(1.0, "a", "", "", "v", "o", "ok", ""))


@pytest.mark.parametrize("order", [[failing], [failing, good], [good, failing], [good, failing, failing, good]])
async def test_a_failed_work_is_not_cached(store: Store, order: list[object]) -> None:
    await a_cluster(store)
    for fresh in ("new", "newer"):
        with contextlib.suppress(Conflict):
            await store.write(order[0])  # type: ignore[arg-type]  # it begins a transaction
        await nothing_of_it(store, fresh)
        answers = await together(store, *order)
        assert [isinstance(answer, Conflict) for answer in answers] == [work is failing for work in order]
        await nothing_of_it(store, "old")
    jobs = await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=99))
    assert [job.id for job in jobs] == list(range(len(jobs), 0, -1))
    assert await store.read(lambda tx: tx.verify_audit()) is None
    events = await store.read(lambda tx: [event.seq for event in tx.events(0, 999)])
    assert events == list(range(1, len(events) + 1))


async def test_a_name_that_comes_back_is_another_cluster_to_new_jobs(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.add_jobs([a_bound_draft()]))
    await store.write(lambda tx: tx.remove_cluster(1, 2.0))
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.add_jobs([a_bound_draft()]))
    await a_cluster(store)
    (id,) = await store.write(lambda tx: tx.add_jobs([a_bound_draft()]))
    assert [attempt.job for attempt in await store.read(lambda tx: tx.live_attempts("perl"))] == [id]


async def test_numbers_go_on_where_they_were_after_opening_again(url: str) -> None:
    for round in range(3):
        store = await open_store(url)
        ids = [await store.write(lambda tx: tx.add_jobs([a_draft()])) for _ in range(2)]
        await store.write(lambda tx: tx.append_audit(1.0, "a", "", "", "v", "o", "ok", ""))
        assert ids == [[2 * round + 1], [2 * round + 2]]
        assert await store.read(lambda tx: tx.verify_audit()) is None
        await store.close()


async def test_any_number_of_jobs_is_stored_at_once_each_with_all_that_is_its_own(store: Store) -> None:
    await a_cluster(store)
    expected: dict[int, tuple[str, dict[str, str], str]] = {}
    for count in [*range(1, 19), 31, 32, 33, 48, 63, 64, 65, 97, 130]:
        first = len(expected) + 1
        drafts = [
            a_bound_draft(
                name=f"n{id}",
                terms=Terms(labels={"id": str(id)}),
                token=f"t{id}",
                decision=StoredDecision(f"own {id}", "{}"),
            )
            for id in range(first, first + count)
        ]
        assert await store.write(lambda tx, drafts=drafts: tx.add_jobs(drafts)) == list(range(first, first + count))
        expected |= {id: (f"n{id}", {"id": str(id)}, f"t{id}") for id in range(first, first + count)}

    def stored(tx: Tx) -> dict[int, tuple[str, dict[str, str], str]]:
        tokens = {attempt.job: attempt.token for attempt in tx.live_attempts("perl")}
        return {job.id: (job.name, dict(job.terms.labels), tokens[job.id]) for job in tx.jobs(list(expected))}

    assert await store.read(stored) == expected
    events = await store.read(lambda tx: tx.events(0, 9999))
    assert [(event.seq, event.job) for event in events] == [(n + 1, n // 2 + 1) for n in range(2 * len(expected))]


async def test_a_server_remembers_nothing_that_another_may_have_changed(postgres: Postgres) -> None:
    url = postgres.new_database()
    one, other = await open_store(url), await open_store(url)
    await a_cluster(one)
    for store in (one, other, one, other):
        (id,) = await store.write(lambda tx: tx.add_jobs([a_bound_draft()]))
        await store.write(lambda tx: tx.append_audit(1.0, "a", "", "", "v", "o", "ok", ""))
        assert id in [attempt.job for attempt in await store.read(lambda tx: tx.live_attempts("perl"))]
        await store.write(lambda tx: tx.remove_cluster(tx.cluster("perl").id, 2.0))  # type: ignore[union-attr]  # it is there
        await a_cluster(store)
    assert await one.read(lambda tx: tx.verify_audit()) is None
    assert await other.read(lambda tx: tx.last_seq()) == 8
    await one.close()
    await other.close()
