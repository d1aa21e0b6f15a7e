"""Settling many jobs at once leaves what settling them one by one leaves, or nothing."""

from __future__ import annotations

import dataclasses

import pytest

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Conflict, Invalid, NotFound
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store import Store
from rainbow_sched.store.base import DecidedJob
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft, a_job

WHY = StoredDecision('{"outcome":{}}', '{"clusters":{}}')


def given(job: Job, cluster: str = "perl", token: str = "t") -> DecidedJob:
    return DecidedJob(job=job, decision=WHY, reason=f"given to {cluster}", cluster=cluster, token=f"{token}{job.id}")


def held(job: Job) -> DecidedJob:
    return DecidedJob(job=job, decision=WHY, reason="nothing fits", hold=Hold.NOTHING_FITS)


async def queued(store: Store, count: int) -> list[Job]:
    ids = await store.write(lambda tx: tx.add_jobs([a_draft() for _ in range(count)]))
    return await store.read(lambda tx: tx.jobs(ids))


async def test_a_settled_job_is_as_one_that_was_bound_when_it_came(store: Store) -> None:
    await a_cluster(store, "perl")
    (job,) = await queued(store, 1)
    await store.write(lambda tx: tx.apply_decisions([given(job)], 2.0))
    at_once = await a_job(store, a_bound_draft(decision=WHY, reason="given to perl", evaluations=1, evaluated_at=2.0))
    settled = await store.read(lambda tx: tx.job(job.id))
    assert settled is not None
    assert dataclasses.replace(settled, id=at_once.id, version=0) == at_once
    (attempt,) = await store.read(lambda tx: tx.attempts(job.id))
    assert (attempt.cluster, attempt.token, attempt.n, attempt.state.value) == ("perl", f"t{job.id}", 1, "offered")
    assert await store.read(lambda tx: tx.decision(job.id, 1)) == WHY
    told = await store.read(lambda tx: tx.events(0, 10, job=job.id))
    assert [(event.kind, event.attempt) for event in told] == [(JobEvent.SUBMITTED, 0), (JobEvent.BOUND, 1)]


async def test_bound_and_held_jobs_are_decided_together(store: Store) -> None:
    await a_cluster(store, "perl", "frontier")
    jobs = await queued(store, 4)
    mixed = [given(jobs[0]), held(jobs[1]), given(jobs[2], "frontier"), held(jobs[3])]
    await store.write(lambda tx: tx.apply_decisions(mixed, 2.0))
    leased = await store.write(lambda tx: tx.lease("frontier", 10, "agent", 60.0))
    assert [job.id for _, job in leased] == [jobs[2].id]
    waiting = [
        await store.read(lambda tx, id=one.job: tx.job(id))
        for one in await store.read(lambda tx: tx.waiting(Hold.NOTHING_FITS, 10))
    ]
    assert [(job.id, job.state, job.reason, job.attempt) for job in waiting] == [
        (job.id, JobState.HELD, "nothing fits", 0) for job in (jobs[1], jobs[3])
    ]
    assert await store.read(lambda tx: tx.decision(jobs[3].id, 0)) == WHY


async def test_news_of_many_jobs_is_an_event_of_each_and_leaves_them_where_they_are(store: Store) -> None:
    jobs = await queued(store, 3)
    seq = await store.read(lambda tx: tx.last_seq())
    told = await store.write(lambda tx: tx.add_update_events(jobs, 2.0, {"attempt": "leased"}))
    assert told == [await store.read(lambda tx, id=job.id: tx.job(id)) for job in jobs]
    events = await store.read(lambda tx: tx.events(seq, 9))
    assert [(e.job, e.kind, e.state) for e in events] == [(j.id, JobEvent.UPDATED, JobState.QUEUED) for j in jobs]
    assert events[0].detail == {"attempt": "leased"}
    with pytest.raises(Conflict, match="3 of 3"):
        await store.write(lambda tx: tx.add_update_events(jobs, 3.0, {}))
    assert await store.read(lambda tx: tx.last_seq()) == seq + 3


async def test_if_one_has_moved_on_nothing_is_settled(store: Store) -> None:
    await a_cluster(store, "perl")
    jobs = await queued(store, 3)
    await store.write(lambda tx: tx.update_job(jobs[1], JobEvent.CANCELLED, 1.5))
    with pytest.raises(Conflict, match="1 of 3"):
        await store.write(lambda tx: tx.apply_decisions([given(job) for job in jobs], 2.0))
    states = [job.state for job in await store.read(lambda tx: tx.jobs([job.id for job in jobs]))]
    assert states == [JobState.QUEUED, JobState.CANCELLED, JobState.QUEUED]
    assert await store.read(lambda tx: tx.live_attempts("perl")) == []


async def test_a_cluster_that_is_gone_gets_nothing(store: Store) -> None:
    jobs = await queued(store, 2)
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.apply_decisions([given(job, "gone") for job in jobs], 2.0))
    assert {job.state for job in await store.read(lambda tx: tx.jobs([job.id for job in jobs]))} == {JobState.QUEUED}


async def test_a_job_is_given_or_held_and_only_one_that_is_queued(store: Store) -> None:
    await a_cluster(store, "perl")
    (job,) = await queued(store, 1)
    for odd in (
        DecidedJob(job=job, decision=WHY, reason=""),
        DecidedJob(job=job, decision=WHY, reason="", cluster="perl"),
        DecidedJob(job=job, decision=WHY, reason="", cluster="perl", token="t", hold=Hold.NOTHING_FITS),
    ):
        with pytest.raises(Invalid):
            await store.write(lambda tx, odd=odd: tx.apply_decisions([odd], 2.0))
    await store.write(lambda tx: tx.update_job(job, JobEvent.CANCELLED, 1.5))
    (ended,) = await store.read(lambda tx: tx.jobs([job.id]))
    with pytest.raises(Conflict):
        await store.write(lambda tx: tx.apply_decisions([given(ended)], 2.0))
