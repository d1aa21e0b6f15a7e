"""Read, cancel, release and watch jobs within the caller's reach.

Watchers get events from a sequence number on, none missed or doubled, and output while it arrives and after.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Conflict, Invalid, NotFound
from rainbow_sched.model.job import Event, Hold, Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.protocol.messages import STREAMS
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import Reach, reach
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.wakeups import EVENTS, OUTPUT
from rainbow_sched.store.base import JobSelection, Tx

MAX_LISTED = 1_000  # jobs; bounds the answer of one call
MAX_CANCELLED = 10_000  # jobs; bounds the transaction of one call
MAX_EVENTS_PER_READ = 500  # bounds the memory of one read of a stream
MAX_BYTES_PER_READ = 64 * 1024  # bounds the memory of one read of a stream
POLL_SECONDS = 10.0  # other processes cannot notify this one


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


async def latest(core: Core) -> int:
    """Return the number of the last event, to watch from now on."""
    return await core.store.read(lambda tx: tx.last_seq())


async def watch(core: Core, which: JobSelection, by: Principal, after: int) -> AsyncIterator[Event]:
    """Yield events of the jobs within reach that match the filter, without end."""
    who = reach(by, "read")
    only = next(iter(which.ids)) if which.ids and len(which.ids) == 1 else None
    owners = None if who.everything or who.clusters else sorted(who.owners)
    while True:
        version = core.notifier.version(EVENTS)

        def page(tx: Tx, after: int = after) -> tuple[list[tuple[Event, bool]], int]:
            if after and after < tx.horizon(owners) and not _none_removed(tx, which):
                raise Conflict(
                    f"events after {after} were removed with old jobs; list the jobs again, then follow from now on"
                )
            found = tx.events(after, MAX_EVENTS_PER_READ, job=only, owners=owners)
            seen: dict[int, Job | None] = {}
            for event in found:
                if event.job not in seen:
                    job = tx.job(event.job)
                    fits = job is not None and reaches(tx, who, job) and _matches(which, job)
                    seen[event.job] = job if fits else None
            wanted = [(event, _event_matches(tx, which, event, seen[event.job])) for event in found]
            return wanted, found[-1].seq if found else tx.last_seq()

        events, reached = await core.store.read(page)
        for event, wanted in events:
            if wanted:
                yield event
        after = max(after, reached)  # also past events of other jobs
        if not events:
            await core.notifier.wait(EVENTS, version, POLL_SECONDS)


def _none_removed(tx: Tx, which: JobSelection) -> bool:
    """Return True if the filter names jobs of which none was removed, so none of their events was."""
    ids = which.ids or frozenset()
    return bool(ids) and len(tx.list_jobs(JobSelection(ids=ids), limit=len(ids))) == len(ids)


def _matches(which: JobSelection, job: Job) -> bool:
    return (
        (not which.ids or job.id in which.ids)
        and (not which.owners or job.owner in which.owners)
        and (not which.name or job.name == which.name)
        and all(job.terms.labels.get(key) == value for key, value in which.labels.items())
    )


def _event_matches(tx: Tx, which: JobSelection, event: Event, job: Job | None) -> bool:
    """Return True if the event matches; with a cluster filter, also for jobs that have left that cluster."""
    if job is None or (which.states and event.state not in which.states):
        return False
    if not which.cluster or job.cluster == which.cluster:
        return True
    attempt = tx.attempt(event.job, event.attempt) if event.attempt else None
    return attempt is not None and attempt.cluster == which.cluster


@dataclass(frozen=True, slots=True)
class OutputChunk:
    stream: str
    offset: int
    data: bytes


async def logs(
    core: Core, id: int, by: Principal, *, follow: bool, streams: tuple[str, ...], offsets: dict[str, int], tail: int
) -> AsyncIterator[OutputChunk]:
    """Yield a job's output; with `follow`, until the job has ended and all of it was sent."""
    who = reach(by, "read")
    at = {stream: offsets.get(stream, 0) for stream in streams or STREAMS}
    attempt = 0
    while True:
        version = core.notifier.version(OUTPUT)
        job = await core.store.read(lambda tx: visible(tx, id, who))
        if job.attempt != attempt:
            if attempt:
                at = dict.fromkeys(at, 0)
            attempt = job.attempt
            if tail and attempt:
                at = {stream: await _tail_from(core, job, stream, tail) for stream in at}
                tail = 0
        sent = False
        for stream in at if attempt else ():
            async for chunk in _stored(core, job, stream, at[stream]):
                at[stream] = chunk.offset + len(chunk.data)
                sent = True
                yield chunk
        if sent:
            continue
        if not follow or job.state.terminal:
            return
        await core.notifier.wait(OUTPUT, version, 1.0 if job.state is not JobState.BOUND else POLL_SECONDS / 10)


async def _stored(core: Core, job: Job, stream: str, offset: int) -> AsyncIterator[OutputChunk]:
    """Yield the stored output from `offset` on; a gap is marked in the output itself."""
    while True:

        def piece(tx: Tx, offset: int = offset) -> tuple[int, bytes, int]:
            data = tx.output(job.id, job.attempt, stream, offset, MAX_BYTES_PER_READ)
            if data:
                return offset, data, 0
            far = tx.next_output(job.id, job.attempt, stream, offset)
            if far is None:
                return offset, b"", 0
            return far, tx.output(job.id, job.attempt, stream, far, MAX_BYTES_PER_READ), far - offset

        start, data, gap = await core.store.read(piece)
        if gap:  # the mark replaces the last missing bytes, so offsets stay valid
            mark = f"\n[rainbow: {gap} bytes were cut here]\n".encode()[:gap]
            yield OutputChunk(stream, start - len(mark), mark)
        if not data:
            return
        yield OutputChunk(stream, start, data)
        offset = start + len(data)


async def _tail_from(core: Core, job: Job, stream: str, lines: int) -> int:
    """Return the offset at which the last `lines` lines begin."""

    def find(tx: Tx) -> int:
        size = tx.output_size(job.id, job.attempt, stream)
        start = max(0, size - 1024 * 1024)
        data = tx.output(job.id, job.attempt, stream, start, 1024 * 1024)
        body = data[:-1] if data.endswith(b"\n") else data
        position = len(body)
        for _ in range(lines):
            position = body.rfind(b"\n", 0, position)
            if position < 0:
                return start
        return start + position + 1

    return await core.store.read(find)
