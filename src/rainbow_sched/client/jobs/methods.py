"""Client methods for jobs: submit, plan, list, watch, read output, cancel, explain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rainbow_sched.client.connection import Connection
from rainbow_sched.client.jobs import codec, rpcs
from rainbow_sched.client.jobs.codec import JobFilter
from rainbow_sched.client.jobs.views import EventInfo, ExplanationInfo, JobInfo, PlanInfo, StreamChunk, Submitted
from rainbow_sched.model.errors import Invalid, NotFound, Unavailable
from rainbow_sched.model.job_state import JobState
from rainbow_sched.pb.v2 import jobs_pb2

if TYPE_CHECKING:
    from rainbow_sched.client.submission import JobSubmission

Item = TypeVar("Item")
JOBS_PER_PAGE = 1_000
MAX_JOBS_PER_CANCEL = 5_000  # of one call; more would delay other callers
MAX_SELECTED_JOBS = 1_000_000  # jobs that a selector such as `all` may mean
ACTIVE_STATES = tuple(state.value for state in JobState if not state.terminal)
CANCEL_FILTERS = ("pending", "running", "active")


def _stage(job: JobInfo) -> str:
    """Return pending, running or ending, as `rainbow jobs` counts the job."""
    if job.state == "bound" and job.attempt_state == "running":
        return "running"
    return "ending" if job.state == "cancelling" or job.attempt_state == "finishing" else "pending"


class JobClient:
    """The calls of `rainbow.v2.Jobs`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def submit_one(self, submission: JobSubmission) -> Submitted:
        """Submit one job; it is durable when this returns."""
        request = codec.submit_message(submission)
        only = submission.terms.only_clusters
        return codec.submitted(await self.connection.call(rpcs.SUBMIT, request, only=only))

    async def submit_batch(self, submissions: Sequence[JobSubmission]) -> tuple[Submitted, ...]:
        """Submit several jobs in one call: all or none."""
        request = jobs_pb2.SubmitBatchRequest(jobs=[codec.submit_message(one) for one in submissions])
        named = [one.terms.only_clusters for one in submissions]
        only = {name for names in named for name in names} if all(named) else ()  # send no token that is not needed
        timeout = self.connection.timeouts.upload
        answer = await self.connection.call(rpcs.SUBMIT_BATCH, request, only=only, timeout=timeout)
        return tuple(codec.submitted(one) for one in answer.jobs)

    async def plan(self, submission: JobSubmission, *, reasons: bool = True) -> PlanInfo:
        """Return the decision that a submit would make; store nothing."""
        request = jobs_pb2.PlanRequest(
            spec=codec.spec_message(submission), terms=codec.terms_message(submission), reasons=reasons
        )
        only = submission.terms.only_clusters
        return codec.plan(await self.connection.call(rpcs.PLAN, request, only=only))

    async def job(self, id: int, *, spec: bool = False) -> JobInfo:
        """Return one job; with `spec`, its request too."""
        return codec.job(await self.connection.call(rpcs.GET_JOB, jobs_pb2.GetJobRequest(id=id, spec=spec)))

    async def jobs(
        self, selected: JobFilter | None = None, *, limit: int = 100, keep: Callable[[JobInfo], bool] | None = None
    ) -> tuple[JobInfo, ...]:
        """Return the newest `limit` jobs that match `selected` and `keep`, newest first."""
        jobs: list[JobInfo] = []
        before = 0
        while len(jobs) < limit:
            size = JOBS_PER_PAGE if keep else min(JOBS_PER_PAGE, limit - len(jobs))
            request = jobs_pb2.ListJobsRequest(
                filter=codec.filter_message(selected or JobFilter()), limit=size, before=before
            )
            page = await self.connection.call(rpcs.LIST_JOBS, request)
            jobs += [job for one in page.jobs if (job := codec.job(one)) and (keep is None or keep(job))]
            before = page.next
            if not before or not page.jobs:
                break
        return tuple(jobs[:limit])

    async def cancel(self, ids: Sequence[int], *, reason: str = "", dry_run: bool = False) -> tuple[JobInfo, ...]:
        """Cancel jobs and return their current states; a running job is `cancelling` at first.

        Jobs that had already ended, or were already cancelling, are marked as `unchanged`.
        """
        jobs: list[JobInfo] = []
        for start in range(0, len(ids), MAX_JOBS_PER_CANCEL) or (0,):
            batch = ids[start : start + MAX_JOBS_PER_CANCEL]
            request = jobs_pb2.CancelRequest(ids=batch, reason=reason, dry_run=dry_run)
            answer = await self.connection.call(rpcs.CANCEL, request)
            unchanged = set(answer.unchanged)
            jobs += [replace(codec.job(one), unchanged=one.id in unchanged or None) for one in answer.jobs]
        return tuple(jobs)

    async def cancel_all(
        self, which: str = "active", selected: JobFilter | None = None, *, reason: str = "", dry_run: bool = False
    ) -> tuple[JobInfo, ...]:
        """Cancel all jobs that match `selected` and are pending, running or active (not ended)."""
        if which not in CANCEL_FILTERS:
            raise Invalid(f"{which!r} is not one of {', '.join(CANCEL_FILTERS)}")
        selected = selected or JobFilter()
        states = [state for state in ACTIVE_STATES if not selected.states or state in selected.states]
        active = await self.jobs(replace(selected, states=states), limit=MAX_SELECTED_JOBS) if states else ()
        ids = [job.id for job in active if which in ("active", _stage(job))]
        return await self.cancel(ids, reason=reason, dry_run=dry_run) if ids else ()

    async def release(self, id: int) -> JobInfo:
        """Release a held job."""
        return codec.job(await self.connection.call(rpcs.RELEASE, jobs_pb2.ReleaseRequest(id=id)))

    async def explain(self, id: int) -> ExplanationInfo:
        """Return the last decision about a job, and current explanations for each cluster."""
        return codec.explanation(await self.connection.call(rpcs.EXPLAIN, jobs_pb2.ExplainRequest(id=id)))

    async def wait(self, id: int) -> JobInfo:
        """Wait until a job has ended; return it."""
        return (await self.wait_all([id]))[0]

    async def wait_all(self, ids: Sequence[int]) -> tuple[JobInfo, ...]:
        """Wait until all jobs have ended; return them. Reads their events from the first, so that none is missed."""
        while True:
            known = {job.id: job for job in await self.jobs(JobFilter(ids=ids), limit=len(ids))}
            missing = [id for id in ids if id not in known]
            if missing:
                raise NotFound(f"there is no job {', '.join(map(str, missing[:10]))} that you may see")
            open_ids = {id for id in ids if not known[id].ended}
            if not open_ids:
                return await self._with_failures([known[id] for id in ids])
            async with contextlib.aclosing(self.watch(JobFilter(ids=sorted(open_ids)), after=0)) as events:
                async for event in events:
                    if event.last:
                        open_ids.discard(event.job)
                        if not open_ids:
                            break
            if open_ids:  # the server ended the stream early
                await self.connection.sleep(self.connection.timeouts.backoff.cap)

    async def _with_failures(self, ended: Sequence[JobInfo]) -> tuple[JobInfo, ...]:
        """Add the category of the failure to jobs that failed; it is stored in their last event."""
        missing = {job.id for job in ended if job.state == "failed" and not job.failure}
        failures: dict[int, str] = {}
        if missing:
            with contextlib.suppress(TimeoutError):  # the events of an old job may be deleted
                async with (
                    asyncio.timeout(self.connection.timeouts.connect),
                    contextlib.aclosing(self.watch(JobFilter(ids=sorted(missing)), after=0)) as events,
                ):
                    async for event in events:
                        if event.last:
                            failures[event.job] = str(event.detail.get("failure", ""))
                            missing.discard(event.job)
                            if not missing:
                                break
        return tuple(replace(job, failure=failures.get(job.id, job.failure)) for job in ended)

    async def watch(
        self, selected: JobFilter | None = None, *, after: int | None = None
    ) -> AsyncGenerator[EventInfo, None]:
        """Yield each event once, as it happens; `after` None: from now on. Resumes after a lost connection."""
        seen = after

        def on_metadata(metadata: dict[str, str]) -> None:
            nonlocal seen
            if seen is None and metadata.get("rainbow-after", "").isdecimal():
                seen = int(metadata["rainbow-after"])

        def open_stream() -> AsyncGenerator[jobs_pb2.Event, None]:
            request = jobs_pb2.WatchRequest(
                filter=codec.filter_message(selected or JobFilter()), after=seen or 0, from_now=seen is None
            )
            return self.connection.stream(rpcs.WATCH, request, on_metadata)

        async with contextlib.aclosing(self._resumed(open_stream)) as messages:
            async for message in messages:
                if seen is None or message.seq > seen:
                    seen = message.seq
                    yield codec.event(message)

    async def logs(
        self,
        id: int,
        *,
        follow: bool = False,
        stream: str = "",
        tail: int = 0,
        offsets: Mapping[str, int] | None = None,
    ) -> AsyncGenerator[StreamChunk, None]:
        """Yield a job's output, each byte once, from `offsets` by stream; with `follow` until the job has ended.

        Resumes after a lost connection.
        """
        position: dict[str, int] = dict(offsets or {})

        def open_stream() -> AsyncGenerator[jobs_pb2.LogChunk, None]:
            request = jobs_pb2.LogsRequest(
                id=id,
                follow=follow,
                stream=stream,
                tail=0 if position else tail,
                stdout_offset=position.get("stdout", 0),
                stderr_offset=position.get("stderr", 0),
            )
            return self.connection.stream(rpcs.LOGS, request)

        async with contextlib.aclosing(self._resumed(open_stream, follow=follow)) as messages:
            async for message in messages:
                offset, data = message.offset, message.data
                known = position.get(message.stream, 0)
                if offset < known:
                    offset, data = known, data[known - offset :]
                if data:
                    position[message.stream] = offset + len(data)
                    yield StreamChunk(message.stream, offset, data)

    async def _resumed(
        self, open_stream: Callable[[], AsyncGenerator[Item, None]], *, follow: bool = True
    ) -> AsyncGenerator[Item, None]:
        """Yield the items of a stream, and open it again after a lost connection until the timeout for streams.

        Without `follow` the timeout for an unreachable server applies, which is shorter.
        """
        loop, timeouts = asyncio.get_running_loop(), self.connection.timeouts
        last_contact, retries = loop.time(), 0
        while True:
            try:
                async with contextlib.aclosing(open_stream()) as items:
                    async for item in items:
                        yield item
                        last_contact, retries = loop.time(), 0
                return
            except Unavailable:
                if retries == 0:
                    last_contact = loop.time()
                pause = timeouts.backoff.delay(retries, self.connection.rng)
                limit = timeouts.stream if follow else timeouts.unreachable
                if not self.connection.may_retry(loop.time() - last_contact + pause, limit):
                    raise
                retries += 1
                await self.connection.sleep(pause)
