"""The calls of `rainbow.v2.Jobs`: submit, plan, list, watch, read output, cancel, explain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rainbow_sched.client.connection import CallCredential, Connection, Rpc
from rainbow_sched.client.views import ServerValue, from_message, from_messages, json_object, timestamp
from rainbow_sched.model.errors import Invalid, NotFound, Unavailable
from rainbow_sched.model.job_state import TERMINAL, JobState
from rainbow_sched.pb.v2 import jobs_pb2 as pb

if TYPE_CHECKING:
    from rainbow_sched.client.submission import JobSubmission

_SUBMIT = CallCredential.SUBMIT
SUBMIT = Rpc("Jobs/Submit", pb.SubmitRequest, pb.SubmitResponse, _SUBMIT)  # has a client token
SUBMIT_BATCH = Rpc("Jobs/SubmitBatch", pb.SubmitBatchRequest, pb.SubmitBatchResponse, _SUBMIT)
PLAN = Rpc("Jobs/Plan", pb.PlanRequest, pb.PlanResponse, _SUBMIT)
GET_JOB = Rpc("Jobs/Get", pb.GetJobRequest, pb.Job)
LIST_JOBS = Rpc("Jobs/List", pb.ListJobsRequest, pb.ListJobsResponse)
WATCH = Rpc("Jobs/Watch", pb.WatchRequest, pb.Event)
LOGS = Rpc("Jobs/Logs", pb.LogsRequest, pb.LogChunk)
CANCEL = Rpc("Jobs/Cancel", pb.CancelRequest, pb.CancelResponse)
RELEASE = Rpc("Jobs/Release", pb.ReleaseRequest, pb.Job, idempotent=False)
EXPLAIN = Rpc("Jobs/Explain", pb.ExplainRequest, pb.ExplainResponse)

Item = TypeVar("Item")
JOBS_PER_PAGE = 1_000  # the most that a server lists per call
MAX_JOBS_PER_CANCEL = 5_000  # of one call; more would delay other callers
MAX_SELECTED_JOBS = 1_000_000  # jobs that a selector such as `all` may mean
ACTIVE_STATES = tuple(state.value for state in JobState if not state.terminal)
CANCEL_FILTERS = ("pending", "running", "active")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo(ServerValue):
    """The current state of a job."""

    id: int
    name: str = ""
    owner: str = ""
    state: str = ""
    cluster: str = ""
    nodes: int = 0
    attempt: int = 0
    attempt_state: str = ""
    native_id: str = ""
    exit_code: int | None = None
    failure: str = ""  # category: exit, time-limit, memory ...
    hosts: str = ""  # hostlist of the nodes that run it, as reported by the agent
    code: str = ""  # code of the reason why the last attempt was returned: wrong-nodes
    reason: str = ""
    hold: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    evaluations: int = 0
    evaluated_at: float | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)
    spec: str = ""
    source: str = ""
    unchanged: bool | None = None  # in the answer to a cancel: it had already ended or was already cancelling

    @property
    def ended(self) -> bool:
        """True if the job is in a final state."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo(ServerValue):
    """One change of a job."""

    seq: int
    job: int
    at: float
    kind: str
    state: str
    attempt: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """True if the job ended with this event."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class StreamChunk(ServerValue):
    """A piece of a job's output: `data` begins at byte `offset` of `stream`."""

    stream: str
    offset: int
    data: bytes

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; bytes that are not UTF-8 are replaced."""
        return {"stream": self.stream, "offset": self.offset, "text": self.data.decode("utf-8", "replace")}


@dataclass(frozen=True, slots=True)
class Submitted(ServerValue):
    """The answer to a submit; the job is stored."""

    id: int
    state: str = ""
    cluster: str = ""  # empty: no cluster chosen yet
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanInfo(ServerValue):
    """The decision for a job that was not submitted: `rainbow.decision/2` and `rainbow.explanations/1`."""

    decision: Mapping[str, Any]
    explanations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExplanationInfo(ServerValue):
    """A job, its last decision, and a current explanation for each cluster."""

    job: JobInfo
    decision: Mapping[str, Any] | None = None
    explanations: tuple[Mapping[str, Any], ...] = ()
    events: tuple[EventInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Conditions on jobs; a job must meet all that are set."""

    states: Sequence[str] = ()
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] | None = None
    ids: Sequence[int] = ()
    since: float | None = None
    owner: str = ""

    def to_message(self) -> pb.JobFilter:
        return pb.JobFilter(**{spec.name: getattr(self, spec.name) for spec in fields(self)})


class JobClient:
    """The calls of `rainbow.v2.Jobs`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def submit_one(self, submission: JobSubmission) -> Submitted:
        """Submit one job; it is durable when this returns."""
        only = submission.terms.only_clusters
        answer = await self.connection.call(SUBMIT, submission.to_message(), only=only)
        return Submitted(answer.id, answer.state, answer.cluster, answer.reason)

    async def submit_batch(self, submissions: Sequence[JobSubmission]) -> tuple[Submitted, ...]:
        """Submit several jobs in one call: all or none."""
        request = pb.SubmitBatchRequest(jobs=[one.to_message() for one in submissions])
        named = [one.terms.only_clusters for one in submissions]
        only = {name for names in named for name in names} if all(named) else ()  # send no token that is not needed
        timeout = self.connection.timeouts.upload
        answer = await self.connection.call(SUBMIT_BATCH, request, only=only, timeout=timeout)
        return from_messages(Submitted, answer.jobs)

    async def plan(self, submission: JobSubmission, *, reasons: bool = True) -> PlanInfo:
        """Return the decision that a submit would make; store nothing."""
        spec, terms = submission.spec_message(), submission.terms_message()
        request = pb.PlanRequest(spec=spec, terms=terms, reasons=reasons)
        answer = await self.connection.call(PLAN, request, only=submission.terms.only_clusters)
        return PlanInfo(json_object(answer.decision), _explanations(answer.explanations))

    async def job(self, id: int, *, spec: bool = False) -> JobInfo:
        """Return one job; with `spec`, its request too."""
        return _job_info(await self.connection.call(GET_JOB, pb.GetJobRequest(id=id, spec=spec)))

    async def jobs(
        self, selected: JobFilter | None = None, *, limit: int = 100, keep: Callable[[JobInfo], bool] | None = None
    ) -> tuple[JobInfo, ...]:
        """Return the newest `limit` jobs that match `selected` and `keep`, newest first."""
        jobs: list[JobInfo] = []
        before = 0
        while len(jobs) < limit:
            size = JOBS_PER_PAGE if keep else min(JOBS_PER_PAGE, limit - len(jobs))
            request = pb.ListJobsRequest(filter=(selected or JobFilter()).to_message(), limit=size, before=before)
            page = await self.connection.call(LIST_JOBS, request)
            jobs += [job for one in page.jobs if (job := _job_info(one)) and (keep is None or keep(job))]
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
            request = pb.CancelRequest(ids=batch, reason=reason, dry_run=dry_run)
            answer = await self.connection.call(CANCEL, request)
            unchanged = set(answer.unchanged)
            jobs += [replace(_job_info(one), unchanged=one.id in unchanged or None) for one in answer.jobs]
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
        return _job_info(await self.connection.call(RELEASE, pb.ReleaseRequest(id=id)))

    async def explain(self, id: int) -> ExplanationInfo:
        """Return the last decision about a job, and current explanations for each cluster."""
        answer = await self.connection.call(EXPLAIN, pb.ExplainRequest(id=id))
        return ExplanationInfo(
            _job_info(answer.job),
            json_object(answer.decision) or None,
            _explanations(answer.explanations),
            tuple(_event_info(event) for event in answer.events),
        )

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
            last_events: dict[int, EventInfo] = {}
            await self._read_last_events(open_ids, last_events)
            if open_ids - last_events.keys():  # the server ended the stream early
                await self.connection.sleep(self.connection.timeouts.backoff.cap)

    async def _with_failures(self, ended: Sequence[JobInfo]) -> tuple[JobInfo, ...]:
        """Add the category of the failure to jobs that failed; it is stored in their last event."""
        failed = {job.id for job in ended if job.state == "failed" and not job.failure}
        events: dict[int, EventInfo] = {}
        if failed:
            with contextlib.suppress(TimeoutError):  # the events of an old job may be deleted
                async with asyncio.timeout(self.connection.timeouts.connect):
                    await self._read_last_events(failed, events)
        failures = {id: str(event.detail.get("failure", "")) for id, event in events.items()}
        return tuple(replace(job, failure=failures.get(job.id, job.failure)) for job in ended)

    async def _read_last_events(self, ids: Set[int], last_events: dict[int, EventInfo]) -> None:
        """Add the last event of each job to `last_events`, until all have ended or the server ends the stream."""
        async with contextlib.aclosing(self.watch(JobFilter(ids=sorted(ids)), after=0)) as events:
            async for event in events:
                if event.last:
                    last_events[event.job] = event
                    if ids <= last_events.keys():
                        return

    async def watch(
        self, selected: JobFilter | None = None, *, after: int | None = None
    ) -> AsyncGenerator[EventInfo, None]:
        """Yield each event once, as it happens; `after` None: from now on. Resumes after a lost connection."""
        seen = after

        def on_metadata(metadata: dict[str, str]) -> None:
            nonlocal seen
            if seen is None and metadata.get("rainbow-after", "").isdecimal():
                seen = int(metadata["rainbow-after"])

        def open_stream() -> AsyncGenerator[pb.Event, None]:
            request = pb.WatchRequest(
                filter=(selected or JobFilter()).to_message(), after=seen or 0, from_now=seen is None
            )
            return self.connection.stream(WATCH, request, on_metadata)

        async with contextlib.aclosing(self._resumed(open_stream)) as messages:
            async for message in messages:
                if seen is None or message.seq > seen:
                    seen = message.seq
                    yield _event_info(message)

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

        def open_stream() -> AsyncGenerator[pb.LogChunk, None]:
            request = pb.LogsRequest(
                id=id,
                follow=follow,
                stream=stream,
                tail=0 if position else tail,
                stdout_offset=position.get("stdout", 0),
                stderr_offset=position.get("stderr", 0),
            )
            return self.connection.stream(LOGS, request)

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


def _job_info(message: pb.Job) -> JobInfo:
    return from_message(JobInfo, message, terms=_terms)


def _event_info(message: pb.Event) -> EventInfo:
    return from_message(EventInfo, message, detail=json_object)


def _terms(message: pb.Terms) -> dict[str, Any]:
    """Return the terms that are set."""
    out: dict[str, Any] = {}
    for spec, value in message.ListFields():
        if spec.name in ("start_after", "deadline"):
            value = timestamp(value)
        elif spec.name in ("policy_options", "labels"):
            value = dict(value)
        elif spec.name in ("only_clusters", "not_clusters", "dependencies"):
            value = list(value)
        out[spec.name] = value
    return out


def _explanations(text: str) -> tuple[dict[str, Any], ...]:
    """Return the clusters of `rainbow.explanations/1`, then those that accept no work, as `closed`."""
    document = json_object(text)
    reasons = document.get("closed", {}).items()
    closed = ({"cluster": name, "fit": "closed", "reasons": [{"sentence": reason}]} for name, reason in reasons)
    return (*document.get("clusters", ()), *closed)


def _stage(job: JobInfo) -> str:
    """Return pending, running or ending, as `rainbow jobs` counts the job."""
    if job.state == "bound" and job.attempt_state == "running":
        return "running"
    return "ending" if job.state == "cancelling" or job.attempt_state == "finishing" else "pending"
