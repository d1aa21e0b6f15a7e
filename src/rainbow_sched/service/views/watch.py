"""Watch jobs: events from a sequence number on, none missed or doubled; output while it arrives and after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Conflict
from rainbow_sched.model.job import Event, Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import STREAMS
from rainbow_sched.service.access.principals import reach
from rainbow_sched.service.core import Core
from rainbow_sched.service.views.jobs import reaches, visible
from rainbow_sched.service.wakeups import EVENTS, OUTPUT
from rainbow_sched.store.base import JobSelection, Tx

MAX_EVENTS_PER_READ = 500
MAX_BYTES_PER_READ = 64 * 1024
POLL_SECONDS = 10.0  # other processes cannot notify this one


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
