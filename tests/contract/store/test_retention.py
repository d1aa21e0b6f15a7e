"""Finished jobs are removed with all that is known of them, and nothing else is."""

from __future__ import annotations

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store import Store, Tx
from rainbow_sched.store.base import Dependency, JobSelection
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft, a_job

TABLES = ("jobs", "labels", "dependencies", "attempts", "events", "decisions", "output", "commands")


async def finished(store: Store, at: float, **said: object) -> int:
    """A job that ran, wrote something, and ended at `at`."""
    draft = a_bound_draft(decision=StoredDecision("{}", "{}"), terms=Terms(labels={"team": "x"}), **said)
    job = await a_job(store, draft)

    def work(tx: Tx) -> None:
        [attempt] = tx.attempts(job.id)
        tx.append_output(job.id, 1, "stdout", 0, b"hello", at)
        tx.add_command(attempt, "cancel", at)
        leased = tx.update_attempt(attempt, AttemptState.ACCEPTED, at)
        tx.update_attempt(leased, AttemptState.SUCCEEDED, at)
        tx.update_job(job, JobEvent.SUCCEEDED, at)

    await store.write(work)
    return job.id


async def rows(store: Store) -> dict[str, int]:
    def work(tx: Tx) -> dict[str, int]:
        session = tx.db  # type: ignore[attr-defined]  # to see that nothing is left behind
        return {table: session.rows_of(f"SELECT count(*) FROM {table}", {})[0][0] for table in TABLES}

    return await store.read(work)


async def remaining(store: Store) -> list[int]:
    return [job.id for job in await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=99))]


async def test_a_removed_job_leaves_nothing_behind(store: Store) -> None:
    await a_cluster(store)
    await finished(store, 10.0)
    before = await rows(store)
    assert all(before[table] for table in TABLES if table != "dependencies")
    assert await store.write(lambda tx: tx.remove_finished(10.0, 5)) == 1
    assert await rows(store) == dict.fromkeys(TABLES, 0)


async def test_the_oldest_go_first_and_what_has_not_ended_stays(store: Store) -> None:
    await a_cluster(store)
    ids = [await finished(store, at) for at in (30.0, 10.0, 20.0)]
    living = [
        (await a_job(store, draft)).id
        for draft in (a_draft(), a_bound_draft(), a_draft(state=JobState.HELD, hold=Hold.USER))
    ]
    assert await store.read(lambda tx: tx.count_finished()) == 3
    assert await store.write(lambda tx: tx.remove_finished(25.0, 1)) == 1
    assert sorted(await remaining(store)) == sorted([ids[0], ids[2], *living])
    assert await store.write(lambda tx: tx.remove_finished(25.0, 9)) == 1
    assert await store.write(lambda tx: tx.remove_finished(25.0, 9)) == 0
    assert sorted(await remaining(store)) == sorted([ids[0], *living])


@pytest.mark.parametrize("kind", ["after", "afterok", "afternotok", "afterany"])
async def test_a_job_that_another_waits_for_is_kept_until_that_one_has_ended(store: Store, kind: str) -> None:
    await a_cluster(store)
    first = await finished(store, 10.0)
    waits = (Dependency(kind, first),)
    waiter = await a_job(store, a_draft(state=JobState.HELD, hold=Hold.DEPENDENCY, waits_for=waits))
    assert await store.write(lambda tx: tx.remove_finished(99.0, 9)) == 0
    await store.write(lambda tx: tx.update_job(waiter, JobEvent.CANCELLED, 50.0))
    assert await store.write(lambda tx: tx.remove_finished(20.0, 9)) == 1
    assert await remaining(store) == [waiter.id]
    assert await store.read(lambda tx: tx.dependencies(waiter.id)) == []


async def test_the_horizon_is_each_owners_own(store: Store) -> None:
    await a_cluster(store)
    assert await store.read(lambda tx: tx.horizon()) == 0
    await finished(store, 10.0, owner="ana")
    last = await store.read(lambda tx: tx.last_seq())
    await finished(store, 20.0, owner="bob")
    await store.write(lambda tx: tx.remove_finished(15.0, 9))
    horizons = [await store.read(lambda tx, who=who: tx.horizon(who)) for who in (None, ["ana"], ["bob"], [])]
    assert horizons == [last, last, 0, 0]
