"""Read, cancel and release jobs within the caller's reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Conflict, Invalid, NotFound
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import Reach, reach
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.store.base import JobSelection, Tx

MAX_LISTED = 1_000
MAX_CANCELLED = 10_000


@dataclass(frozen=True, slots=True)
class JobWithAttempt:
    """A job with its live or last attempt."""

    job: Job
    attempt: Attempt | None = None
    unchanged: bool = False  # it had ended, or was being cancelled


def view_of(tx: Tx, job: Job, *, unchanged: bool = False) -> JobWithAttempt:
    return JobWithAttempt(job, tx.attempt(job.id, job.attempt) if job.attempt else None, unchanged)


def visible(tx: Tx, id: int, who: Reach) -> Job:
    """Return a job within reach; raise NotFound otherwise, whether it exists or not."""
    job = tx.job(id)
    if job is None or not reaches(tx, who, job):
        raise NotFound(f"there is no job {id}")
    return job


def reaches(tx: Tx, who: Reach, job: Job) -> bool:
    """Return True if a job is within reach.

    An agent reaches jobs of its own cluster, not of an earlier cluster with the same name.
    """
    if not who.covers(job.owner, job.cluster):
        return False
    if who.everything or job.owner in who.owners:
        return True
    cluster, attempt = tx.cluster(job.cluster), tx.attempt(job.id, job.attempt)
    return cluster is not None and attempt is not None and attempt.created_at >= cluster.registered_at


async def get(core: Core, id: int, by: Principal) -> JobWithAttempt:
    who = reach(by, "read")
    return await core.store.read(lambda tx: view_of(tx, visible(tx, id, who)))


async def listed(core: Core, which: JobSelection, by: Principal, *, before: int, limit: int) -> list[JobWithAttempt]:
    """Return jobs within reach, newest first."""
    who = reach(by, "read")
    narrowed = within(which, who)
    if narrowed is None:
        return []

    def work(tx: Tx) -> list[JobWithAttempt]:
        jobs = tx.list_jobs(narrowed, after=before or None, limit=min(limit or 100, MAX_LISTED))
        if who.clusters:
            jobs = [job for job in jobs if reaches(tx, who, job)]
        return [view_of(tx, job) for job in jobs]

    return await core.store.read(work)


def within(which: JobSelection, who: Reach) -> JobSelection | None:
    """Return the filter narrowed to what may be seen; None if nothing is left."""
    if who.everything:
        return which
    if who.clusters and (which.cluster in who.clusters or not who.owners):
        if which.cluster and which.cluster not in who.clusters:
            return None
        return replace(which, cluster=which.cluster or who.clusters[0])
    owners = which.owners & who.owners if which.owners else who.owners
    return replace(which, owners=owners) if owners else None


async def cancel(
    core: Core, ids: Sequence[int], which: JobSelection | None, by: Principal, reason: str, *, dry_run: bool = False
) -> list[JobWithAttempt]:
    """Cancel jobs by id, or all unfinished jobs that match a filter."""
    who = reach(by, "cancel")
    if not ids and which is None:
        raise Invalid("give job ids or a filter")
    if len(ids) > MAX_CANCELLED:
        raise Invalid(f"a call cancels at most {MAX_CANCELLED} jobs, not {len(ids)}; use several calls")
    note = reason[:512] or f"cancelled by {by.name}"
    actor = acting()

    def work(tx: Tx, fx: Effects) -> list[JobWithAttempt]:
        now = core.clock.now()
        jobs = [visible(tx, id, who) for id in dict.fromkeys(ids)] if ids else _matching_jobs(tx, which, who)
        if jobs and not dry_run:
            actor.note(tx, "job.cancel", format_ranges(job.id for job in jobs), now)
            with lifecycle.settle_at_end(tx, fx, now):
                after = [lifecycle.cancel(tx, fx, job, note, now) for job in jobs]
            return [view_of(tx, new, unchanged=new is old) for old, new in zip(jobs, after, strict=True)]
        return [view_of(tx, job) for job in jobs]

    return await core.write(work)


def _matching_jobs(tx: Tx, which: JobSelection | None, who: Reach) -> list[Job]:
    narrowed = None if which is None else within(which, who)
    if narrowed is None:
        return []
    living = narrowed.states or frozenset(state for state in JobState if not state.terminal)
    return tx.list_jobs(replace(narrowed, states=living), limit=MAX_CANCELLED)


async def release(core: Core, id: int, by: Principal) -> JobWithAttempt:
    """Release a job that its owner held, or that may have run before a restore."""
    who = reach(by, "cancel")
    actor = acting()

    def work(tx: Tx, fx: Effects) -> JobWithAttempt:
        job = visible(tx, id, who)
        if job.state is JobState.HELD and job.hold is Hold.RESTORED:
            raise Conflict(f"job {id} cannot be released yet: {job.reason}")
        if job.state is not JobState.HELD or job.hold not in (Hold.USER, Hold.MAY_HAVE_RUN):
            raise Conflict(f"job {id} is not held by its owner; it is {job.state.value}")
        actor.note(tx, "job.release", str(id), core.clock.now())
        if job.hold is Hold.MAY_HAVE_RUN:
            return JobWithAttempt(restore.allow(tx, fx, core, job, by, core.clock.now()))
        return JobWithAttempt(lifecycle.release(tx, fx, job, f"released by {by.name}", core.clock.now()))

    return await core.write(work)
