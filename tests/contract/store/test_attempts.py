"""Leases never overlap, attempts move only forward, and damaged requests are never handed out."""

from __future__ import annotations

import asyncio

import pytest

from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.errors import Conflict, NotFound
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store import Store
from rainbow_sched.store.base import Command
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft, a_job, an_offer, flat


async def leased(store: Store, limit: int = 10, until: float = 60.0, now: float | None = None) -> list[int]:
    found = await store.write(lambda tx: tx.lease("perl", limit, "agent", until, now=now))
    return [job.id for _, job in found]


async def test_a_lease_takes_the_highest_priority_first_then_the_oldest(store: Store) -> None:
    await a_cluster(store, "perl", "other")
    drafts = [a_bound_draft(terms=Terms(priority=p)) for p in (0, 5, 0, 5, -1)]
    await store.write(lambda tx: tx.add_jobs([*drafts, a_bound_draft("other", terms=Terms(priority=9))]))
    assert await leased(store, 3) == [2, 4, 1]
    assert await leased(store, 3) == [3, 5]
    assert await leased(store, 3) == []


async def test_a_leased_attempt_comes_with_its_job_and_its_holder(store: Store) -> None:
    job = await an_offer(store)
    ((attempt, same),) = await store.write(lambda tx: tx.lease("perl", 5, "agent-1", 60.5))
    assert same == job
    assert (attempt.state, attempt.lease_until, attempt.holder) == (AttemptState.LEASED, 60.5, "agent-1")
    assert isinstance(attempt.created_at, float)
    assert await store.read(lambda tx: tx.attempt(1, 1)) == attempt


async def test_two_who_lease_at_once_never_get_the_same_job(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.add_jobs([a_bound_draft() for _ in range(40)]))
    taken = await asyncio.gather(*[leased(store, 3) for _ in range(20)])
    assert sorted(flat(taken)) == list(range(1, 41))


async def test_only_bound_jobs_are_leased(store: Store) -> None:
    job = await an_offer(store)
    await store.write(lambda tx: tx.update_job(job, JobEvent.CANCEL_ASKED, 2.0))
    assert await leased(store) == []


async def test_a_lapsed_lease_is_given_again_when_asked_for(store: Store) -> None:
    await an_offer(store)
    assert await leased(store, until=60.0) == [1]
    assert await store.read(lambda tx: tx.lapsed(59.9, 10)) == []
    assert await leased(store, until=120.0, now=59.9) == []
    assert [a.job for a in await store.read(lambda tx: tx.lapsed(60.0, 10))] == [1]
    assert await leased(store, until=120.0) == []
    assert await leased(store, until=120.0, now=60.0) == [1]
    assert await store.read(lambda tx: tx.lapsed(60.0, 10)) == []


async def test_nobody_leases_from_a_cluster_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound):
        await leased(store)


async def test_an_attempt_moves_forward_and_notes_its_times(store: Store) -> None:
    await an_offer(store)

    def life(tx) -> Attempt:  # type: ignore[no-untyped-def]
        ((attempt, _),) = tx.lease("perl", 1, "agent", 60.0)
        attempt = tx.update_attempt(attempt, AttemptState.ACCEPTED, 2.0, lease_until=None)
        attempt = tx.update_attempt(
            attempt, AttemptState.ACCEPTED, 2.5, suspect=True, native_id="17", nodes="n[1-2]", code="wrong-nodes"
        )
        attempt = tx.update_attempt(attempt, AttemptState.RUNNING, 3.0, suspect=False)
        return tx.update_attempt(attempt, AttemptState.FAILED, 4.0, exit_code=137, failure=Failure.MEMORY, reason="oom")

    ended = await store.write(life)
    assert ended == Attempt(
        job=1,
        n=1,
        cluster="perl",
        token="fence",
        state=AttemptState.FAILED,
        created_at=1.0,
        accepted_at=2.0,
        started_at=3.0,
        ended_at=4.0,
        exit_code=137,
        failure=Failure.MEMORY,
        reason="oom",
        native_id="17",
        nodes="n[1-2]",
        code="wrong-nodes",
        holder="agent",
    )
    assert await store.read(lambda tx: tx.attempts(1)) == [ended]
    for state in (AttemptState.RUNNING, AttemptState.SUCCEEDED, AttemptState.FAILED):
        with pytest.raises(Conflict):
            await store.write(lambda tx, state=state: tx.update_attempt(ended, state, 5.0))


async def test_an_update_of_a_stale_attempt_is_a_conflict(store: Store) -> None:
    await an_offer(store)
    (offered,) = await store.read(lambda tx: tx.attempts(1))
    await leased(store)
    with pytest.raises(Conflict, match="rb-1-1 has changed"):
        await store.write(lambda tx: tx.update_attempt(offered, AttemptState.WITHDRAWN, 2.0))


async def test_a_second_attempt_follows_the_first(store: Store) -> None:
    await a_cluster(store)
    job = await a_job(store)
    first = await store.write(lambda tx: tx.add_attempt(job, "perl", "t1", 2.0))
    assert (first.n, first.state) == (1, AttemptState.OFFERED)
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.add_attempt(job, "perl", "t2", 2.0))
    bound = await store.write(lambda tx: tx.update_job(job, JobEvent.BOUND, 2.0, cluster="perl", attempt=1))
    await store.write(lambda tx: tx.update_attempt(first, AttemptState.RETURNED, 3.0))
    again = await store.write(lambda tx: tx.update_job(bound, JobEvent.UNBOUND, 3.0))
    second = await store.write(lambda tx: tx.add_attempt(again, "perl", "t2", 4.0))
    assert second.n == 2
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.add_attempt(again, "nowhere", "t3", 4.0))
    assert [a.state for a in await store.read(lambda tx: tx.attempts(1))] == ["returned", "offered"]


async def test_live_attempts_are_those_that_may_still_run(store: Store) -> None:
    await a_cluster(store, "perl", "other")
    await store.write(lambda tx: tx.add_jobs([a_bound_draft(), a_bound_draft(), a_bound_draft("other"), a_draft()]))
    (first,) = await store.read(lambda tx: tx.attempts(1))
    await store.write(lambda tx: tx.update_attempt(first, AttemptState.WITHDRAWN, 2.0))
    assert [a.job for a in await store.read(lambda tx: tx.live_attempts("perl"))] == [2]
    assert await store.read(lambda tx: (tx.count_live("perl"), tx.count_live("none"))) == (
        {AttemptState.OFFERED: 1},
        {},
    )


async def test_a_damaged_request_is_never_handed_out_and_its_job_fails_with_that_reason(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.add_jobs([a_bound_draft(), a_bound_draft(), a_bound_draft(spec='{"good":1}')]))
    await store.write(lambda tx: tx.db.run("UPDATE jobs SET spec_check = spec_check + 1 WHERE id < 3"))
    assert await leased(store, 2, now=7.0) == [3]
    ends = await store.read(lambda tx: [tx.attempts(id)[0].state for id in (1, 2)])
    assert ends == [AttemptState.WITHDRAWN] * 2
    events = await store.read(lambda tx: tx.events(0, 100, job=1))
    assert (events[-1].kind, events[-1].state, events[-1].at) == (JobEvent.FAILED, JobState.FAILED, 7.0)


async def test_a_command_is_told_until_it_is_acknowledged_or_its_attempt_ends(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.add_jobs([a_bound_draft(token="f1"), a_bound_draft(token="f2")]))
    one, two = await store.read(lambda tx: [tx.attempts(id)[0] for id in (1, 2)])
    assert await store.write(lambda tx: tx.add_command(one, "cancel", 2.0)) == 1
    assert await store.write(lambda tx: tx.add_command(one, "cancel", 3.0)) == 1
    assert await store.write(lambda tx: tx.add_command(two, "cancel", 3.0)) == 2
    assert await store.read(lambda tx: tx.commands("perl")) == [
        Command(id=1, job=1, n=1, token="f1", kind="cancel", at=2.0),
        Command(id=2, job=2, n=1, token="f2", kind="cancel", at=3.0),
    ]
    await store.write(lambda tx: tx.ack_command(1))
    assert [c.id for c in await store.read(lambda tx: tx.commands("perl"))] == [2]
    await store.write(lambda tx: tx.update_attempt(two, AttemptState.WITHDRAWN, 4.0))
    assert await store.read(lambda tx: tx.commands("perl")) == []
    assert await store.write(lambda tx: tx.add_command(one, "cancel", 5.0)) == 3
