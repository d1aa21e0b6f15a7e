"""What a client can do with jobs: submit, plan, list, follow, read their output, cancel, explain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rainbow.client import rpcs, wire
from rainbow.client.connection import Connection
from rainbow.client.submission import Submission
from rainbow.client.views import Chunk, EventView, ExplanationView, JobView, PlanView, Submitted
from rainbow.client.wire import JobFilter
from rainbow.model.errors import Invalid, NotFound, Unavailable
from rainbow.model.job import JobState
from rainbow.pb.v2 import jobs_pb2 as jobs

Item = TypeVar("Item")
PAGE = 1_000
CANCELLED_AT_ONCE = 5_000  # jobs of one call; the server holds nobody up with more
MOST = 1_000_000  # jobs that a word such as `all` may mean
LIVING = tuple(state.value for state in JobState if not state.terminal)
CANCELLED = ("pending", "running", "active")


def _stage(job: JobView) -> str:
    """Pending, running, or ending: as `rainbow jobs` counts them."""
    if job.state == "bound" and job.attempt_state == "running":
        return "running"
    return "ending" if job.state == "cancelling" or job.attempt_state == "finishing" else "pending"


class JobVerbs:
    """The calls of `rainbow.v2.Jobs`."""

    connection: Connection

    async def submit_one(self, submission: Submission) -> Submitted:
        """Submit one job; when this returns, the job is stored durably."""
        request = wire.submit_message(submission)
        only = submission.terms.only_clusters
        return wire.submitted(await self.connection.call(rpcs.SUBMIT, request, only=only))

    async def submit_batch(self, submissions: Sequence[Submission]) -> tuple[Submitted, ...]:
        """Submit many jobs in one call, all or nothing."""
        request = jobs.SubmitBatchRequest(jobs=[wire.submit_message(one) for one in submissions])
        named = [one.terms.only_clusters for one in submissions]
        only = {name for names in named for name in names} if all(named) else ()  # no token goes where none is needed
        patience = self.connection.patience.upload
        answer = await self.connection.call(rpcs.SUBMIT_BATCH, request, only=only, timeout=patience)
        return tuple(wire.submitted(one) for one in answer.jobs)

    async def plan(self, submission: Submission, *, reasons: bool = True) -> PlanView:
        """What would happen if `submission` were submitted; stores nothing."""
        request = jobs.PlanRequest(
            spec=wire.spec_message(submission), terms=wire.terms_message(submission), reasons=reasons
        )
        only = submission.terms.only_clusters
        return wire.plan(await self.connection.call(rpcs.PLAN, request, only=only))

    async def job(self, id: int, *, spec: bool = False) -> JobView:
        """One job as it is now; with `spec`, what it asked for too."""
        return wire.job(await self.connection.call(rpcs.GET_JOB, jobs.GetJobRequest(id=id, spec=spec)))

    async def jobs(
        self, chosen: JobFilter | None = None, *, limit: int = 100, keep: Callable[[JobView], bool] | None = None
    ) -> tuple[JobView, ...]:
        """The newest `limit` jobs that `chosen` and `keep` leave, newest first."""
        found: list[JobView] = []
        before = 0
        while len(found) < limit:
            size = PAGE if keep else min(PAGE, limit - len(found))
            request = jobs.ListJobsRequest(filter=wire.filter_message(chosen or JobFilter()), limit=size, before=before)
            page = await self.connection.call(rpcs.LIST_JOBS, request)
            found += [job for one in page.jobs if (job := wire.job(one)) and (keep is None or keep(job))]
            before = page.next
            if not before or not page.jobs:
                break
        return tuple(found[:limit])

    async def cancel(self, ids: Sequence[int], *, reason: str = "", dry_run: bool = False) -> tuple[JobView, ...]:
        """Ask for the end of jobs; each is answered as it is now, which may still be `cancelling`.

        Those that had ended before, or were being cancelled, are marked as `unchanged`.
        """
        found: list[JobView] = []
        for at in range(0, len(ids), CANCELLED_AT_ONCE) or (0,):
            piece = ids[at : at + CANCELLED_AT_ONCE]
            request = jobs.CancelRequest(ids=piece, reason=reason, dry_run=dry_run)
            answer = await self.connection.call(rpcs.CANCEL, request)
            unchanged = set(answer.unchanged)
            found += [replace(wire.job(one), unchanged=one.id in unchanged or None) for one in answer.jobs]
        return tuple(found)

    async def cancel_all(
        self, which: str = "active", chosen: JobFilter | None = None, *, reason: str = "", dry_run: bool = False
    ) -> tuple[JobView, ...]:
        """Cancel all jobs that are pending, running or active (not ended), of those that `chosen` leaves."""
        if which not in CANCELLED:
            raise Invalid(f"{which!r} is none of {', '.join(CANCELLED)}")
        chosen = chosen or JobFilter()
        states = [state for state in LIVING if not chosen.states or state in chosen.states]
        living = await self.jobs(replace(chosen, states=states), limit=MOST) if states else ()
        ids = [job.id for job in living if which in ("active", _stage(job))]
        answers: list[JobView] = []
        for start in range(0, len(ids), PAGE):
            answers += await self.cancel(ids[start : start + PAGE], reason=reason, dry_run=dry_run)
        return tuple(answers)

    async def release(self, id: int) -> JobView:
        """Let a job go that its owner held."""
        return wire.job(await self.connection.call(rpcs.RELEASE, jobs.ReleaseRequest(id=id)))

    async def explain(self, id: int) -> ExplanationView:
        """Why a job is where it is: the stored decision, and the reasons as they are now."""
        return wire.explanation(await self.connection.call(rpcs.EXPLAIN, jobs.ExplainRequest(id=id)))

    async def wait(self, id: int) -> JobView:
        """Wait until a job has ended."""
        return (await self.wait_all([id]))[0]

    async def wait_all(self, ids: Sequence[int]) -> tuple[JobView, ...]:
        """Wait until every one of these jobs has ended. Reads their events from the first, so that none slips by."""
        while True:
            known = {job.id: job for job in await self.jobs(JobFilter(ids=ids), limit=len(ids))}
            missing = [id for id in ids if id not in known]
            if missing:
                raise NotFound(f"there is no job {', '.join(map(str, missing[:10]))} that you may see")
            open_ids = {id for id in ids if not known[id].ended}
            if not open_ids:
                return await self._how_they_failed([known[id] for id in ids])
            async with contextlib.aclosing(self.watch(JobFilter(ids=sorted(open_ids)), after=0)) as events:
                async for event in events:
                    if event.last:
                        open_ids.discard(event.job)
                        if not open_ids:
                            break
            if open_ids:  # the server ended the stream early
                await self.connection.sleep(self.connection.patience.backoff.cap)

    async def _how_they_failed(self, ended: Sequence[JobView]) -> tuple[JobView, ...]:
        """The same jobs; those that failed with the category of the failure, which stands in their last event."""
        unsaid = {job.id for job in ended if job.state == "failed" and not job.failure}
        said: dict[int, str] = {}
        if unsaid:
            with contextlib.suppress(TimeoutError):  # a job whose events are gone keeps its category to itself
                async with (
                    asyncio.timeout(self.connection.patience.connect),
                    contextlib.aclosing(self.watch(JobFilter(ids=sorted(unsaid)), after=0)) as events,
                ):
                    async for event in events:
                        if event.last:
                            said[event.job] = str(event.detail.get("failure", ""))
                            unsaid.discard(event.job)
                            if not unsaid:
                                break
        return tuple(replace(job, failure=said.get(job.id, job.failure)) for job in ended)

    async def watch(
        self, chosen: JobFilter | None = None, *, after: int | None = None
    ) -> AsyncGenerator[EventView, None]:
        """Events as they happen, each once; `after` None: from now on. Goes on where it was after a cut."""
        seen = after

        def begun(said: dict[str, str]) -> None:
            nonlocal seen
            if seen is None and said.get("rainbow-after", "").isdecimal():
                seen = int(said["rainbow-after"])

        def open_stream() -> AsyncGenerator[jobs.Event, None]:
            request = jobs.WatchRequest(
                filter=wire.filter_message(chosen or JobFilter()), after=seen or 0, from_now=seen is None
            )
            return self.connection.stream(rpcs.WATCH, request, begun)

        async with contextlib.aclosing(self._resumed(open_stream)) as messages:
            async for message in messages:
                if seen is None or message.seq > seen:
                    seen = message.seq
                    yield wire.event(message)

    async def logs(
        self,
        id: int,
        *,
        follow: bool = False,
        stream: str = "",
        tail: int = 0,
        offsets: Mapping[str, int] | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """A job's output, each byte once, from `offsets` by stream if given; with `follow` until the job has ended.

        Goes on where it was after a cut.
        """
        at: dict[str, int] = dict(offsets or {})

        def open_stream() -> AsyncGenerator[jobs.LogChunk, None]:
            request = jobs.LogsRequest(
                id=id,
                follow=follow,
                stream=stream,
                tail=0 if at else tail,
                stdout_offset=at.get("stdout", 0),
                stderr_offset=at.get("stderr", 0),
            )
            return self.connection.stream(rpcs.LOGS, request)

        async with contextlib.aclosing(self._resumed(open_stream, followed=follow)) as messages:
            async for message in messages:
                offset, data = message.offset, message.data
                known = at.get(message.stream, 0)
                if offset < known:
                    offset, data = known, data[known - offset :]
                if data:
                    at[message.stream] = offset + len(data)
                    yield Chunk(message.stream, offset, data)

    async def _resumed(
        self, open_stream: Callable[[], AsyncGenerator[Item, None]], *, followed: bool = True
    ) -> AsyncGenerator[Item, None]:
        """The items of a stream that is opened again after each cut, until the patience for silence is over.

        What is not `followed` is wanted at once: a server that is away is not waited for as long.
        """
        loop, patience = asyncio.get_running_loop(), self.connection.patience
        heard, tries = loop.time(), 0
        while True:
            try:
                async with contextlib.aclosing(open_stream()) as items:
                    async for item in items:
                        yield item
                        heard, tries = loop.time(), 0
                return
            except Unavailable:
                if tries == 0:
                    heard = loop.time()
                pause = patience.backoff.delay(tries, self.connection.rng)
                longest = patience.stream if followed else patience.unreachable
                if not self.connection.bears(loop.time() - heard + pause, longest):
                    raise
                tries += 1
                await self.connection.sleep(pause)
