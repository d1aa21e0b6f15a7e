"""Drafts and clusters that show only what a test is about."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store import Store
from rainbow_sched.store.base import NewJob

SPEC = '{"resources":[{"type":"core","count":1}]}'


def flat(lists: Iterable[list[int]]) -> list[int]:
    """Lists joined to one."""
    return list(chain.from_iterable(lists))


def a_draft(**said: object) -> NewJob:
    """A queued job of ana's."""
    return NewJob(**{"owner": "user:ana", "name": "sleep", "spec": SPEC, "submitted_at": 1.0, **said})  # type: ignore[arg-type]


def a_bound_draft(cluster: str = "perl", **said: object) -> NewJob:
    """A job that is offered to a cluster at once."""
    return a_draft(**{"state": JobState.BOUND, "cluster": cluster, "token": "fence", **said})


async def a_cluster(store: Store, *names: str) -> None:
    """Register clusters."""
    await store.write(lambda tx: [tx.add_cluster(name, 1.0) for name in names or ("perl",)])


async def a_job(store: Store, draft: NewJob | None = None) -> Job:
    """Store one job and read it."""
    (id,) = await store.write(lambda tx: tx.add_jobs([draft or a_draft()]))
    job = await store.read(lambda tx: tx.job(id))
    assert job is not None
    return job


async def an_offer(store: Store, cluster: str = "perl", **said: object) -> Job:
    """A bound job on a new cluster."""
    await a_cluster(store, cluster)
    return await a_job(store, a_bound_draft(cluster, **said))
