"""Turn submissions into new jobs, with a group commit: calls that arrive during a write share the next one.

A call is answered only when its jobs, decisions and events are durable. The client token is an
idempotency key: the same token and body return the same job. A write waits briefly for as many
callers as shared the last one, because deciding and storing together is cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from rainbow_sched.model.errors import Invalid, RainbowError, Unavailable
from rainbow_sched.model.job import MAX_NAME_CHARS, Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.service.access.audit import Actor, acting
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.plan import (
    MAX_PLANS,
    UNDECIDED_JOB,
    ApplyRefused,
    PlacementQuery,
    PlannedJob,
    Reservations,
    TimeSlice,
    apply,
    pinned,
    plan,
)
from rainbow_sched.service.submission.new_jobs import CallOutcome, Quota, Receipt, SubmitCall, insert
from rainbow_sched.store.base import Dependency, NewJob, Tx

MAX_JOBS_DECIDED_BEFORE_STORING = 64  # of one call; a caller does not wait for more decisions
MAX_JOBS_PER_CALL = 10_000  # bounds the transaction and the memory of one call
MAX_JOBS_PER_SHARED_WRITE = 64  # of several calls; more would wait longer for each other than a write takes
MAX_SHORT_TEXT_CHARS = 500_000  # written within a few milliseconds
MAX_EXPECTED_CALLS = 32  # a write waits for no more than this
WAIT_SECONDS_PER_CALL = 0.00025  # for each call that is expected, so that one write stores them together
MAX_WAITS = 4  # it waits again only if a call arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submitted job that was parsed and checked."""

    owner: str
    request: PreparedRequest
    source: str = ""
    name: str = ""
    terms: Terms = field(default_factory=Terms)
    client_token: str = ""
    waits_for: tuple[Dependency, ...] = ()

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME_CHARS or not self.name.isprintable():
            raise Invalid(f"a job's name has at most {MAX_NAME_CHARS} printable characters")
        if len(self.client_token) > MAX_NAME_CHARS:
            raise Invalid(f"a client token has at most {MAX_NAME_CHARS} characters")


async def plan_submissions(
    core: Core, reserved: Reservations, submissions: Sequence[Submission], time_slice: TimeSlice, *, decide: bool
) -> list[NewJob]:
    """Return the jobs to store: held, waiting, assigned, refused, or left to the scheduling loop.

    Those of a large batch, and all without `decide`, are decided after they were stored.
    """
    now, fleet = core.clock.now(), core.fleet
    holds = [_initial_hold(submission, now) for submission in submissions]
    terms = [pinned(fleet, submission.terms) for submission in submissions]
    planned: list[PlannedJob] = []
    if decide and len(submissions) <= MAX_JOBS_DECIDED_BEFORE_STORING:
        queries = (
            PlacementQuery(one.request, there, one.owner, core.ids.seed())
            for one, there, hold in zip(submissions, terms, holds, strict=True)
            if hold is None
        )
        planned = await plan(core, reserved, queries, time_slice)
        for one in planned:
            if one.error is not None:
                reserved.release(planned)
                raise one.error
    plans = iter(planned)
    return [
        _new_job(submission, there, hold, next(plans, UNDECIDED_JOB) if hold is None else UNDECIDED_JOB, now)
        for submission, there, hold in zip(submissions, terms, holds, strict=True)
    ]


def _initial_hold(submission: Submission, now: float) -> tuple[Hold, str] | None:
    """Return what a job waits for before it is decided, and the reason for people."""
    terms = submission.terms
    if terms.hold:
        return Hold.USER, "held; release with: rainbow release JOB"
    if submission.waits_for:
        kinds = dict.fromkeys(waited.kind for waited in submission.waits_for)
        jobs = {kind: format_ranges(d.job for d in submission.waits_for if d.kind == kind) for kind in kinds}
        return Hold.DEPENDENCY, "waits for " + ", ".join(f"{kind}:{numbers}" for kind, numbers in jobs.items())
    if terms.start_after is not None and terms.start_after > now:
        return Hold.TIME, "waits for its start time"
    return None


def _new_job(
    submission: Submission, terms: Terms, hold: tuple[Hold, str] | None, planned: PlannedJob, now: float
) -> NewJob:
    state, why, reason = planned.state, None, planned.reason
    if hold is not None:
        state, (why, reason) = JobState.HELD, hold
    elif state is JobState.HELD:
        why = Hold.NOTHING_FITS
    decided = planned.record is not None
    return NewJob(
        owner=submission.owner,
        name=submission.name,
        spec=submission.request.text,
        source=submission.source,
        terms=terms,
        state=state,
        hold=why,
        reason=reason,
        client_token=submission.client_token,
        submitted_at=now,
        cluster=planned.cluster,
        token=planned.fence,
        decision=planned.record,
        evaluations=1 if decided else 0,
        evaluated_at=now if decided else None,
        waits_for=submission.waits_for,
    )


@dataclass(slots=True)
class _PendingCall:
    """A submit call that waits for its write."""

    by: Actor
    submissions: Sequence[Submission]
    answer: asyncio.Future[list[Receipt]]


class Intake:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._quota = Quota(core.settings.queued_per_owner)
        self._pending_calls: list[_PendingCall] = []
        self._write_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expected_calls = 1  # calls of the last write and those that arrived during it

    async def submit(self, submissions: Sequence[Submission]) -> list[Receipt]:
        """Store all jobs or none; return when they are durable."""
        if len(submissions) > MAX_JOBS_PER_CALL:
            raise Invalid(f"a batch has at most {MAX_JOBS_PER_CALL} jobs; send {len(submissions)} in several calls")
        shortest = self._core.settings.shortest_lost_after
        if any(s.terms.lost_after is not None and s.terms.lost_after < shortest for s in submissions):
            raise Invalid(f"lost_after must be at least {shortest:g} s")
        long = len(submissions) if len(submissions) > MAX_JOBS_DECIDED_BEFORE_STORING else 0
        self._core.jobs_arriving += long
        try:
            one = _PendingCall(acting(), submissions, asyncio.get_running_loop().create_future())
            self._pending_calls.append(one)
            self._write_or_wait()
            return await one.answer  # cancelling the caller does not cancel the write
        finally:
            self._core.jobs_arriving -= long

    def _write_or_wait(self, waits_left: int = MAX_WAITS) -> None:
        """Start the next write, unless one is in progress or more callers are expected."""
        if self._write_task is not None or not self._pending_calls:
            return
        wanted = min(self._expected_calls, MAX_EXPECTED_CALLS)
        if len(self._pending_calls) >= wanted or not waits_left:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._write_task = asyncio.create_task(self._write())
        elif self._timer is None:
            later = asyncio.get_running_loop().call_later
            self._timer = later(
                WAIT_SECONDS_PER_CALL * wanted, self._wait_elapsed, len(self._pending_calls), waits_left - 1
            )

    def _wait_elapsed(self, before: int, waits_left: int) -> None:
        self._timer = None
        self._write_or_wait(waits_left if len(self._pending_calls) > before else 0)

    async def _write(self) -> None:
        taken = self._take_calls()
        try:
            await self._store([one for one in taken if not one.answer.done()])
        except Exception as error:  # every call gets an answer
            for one in taken:
                _fail(one, error)
        finally:
            self._write_task, self._expected_calls = None, len(taken) + len(self._pending_calls)
        self._write_or_wait()

    def _take_calls(self) -> list[_PendingCall]:
        """Take the calls that share the next write, limited by their number of jobs."""
        jobs = count = 0
        for one in self._pending_calls:
            jobs += len(one.submissions)
            if count and jobs > MAX_JOBS_PER_SHARED_WRITE:
                break
            count += 1
        taken, self._pending_calls = self._pending_calls[:count], self._pending_calls[count:]
        return taken

    async def _store(self, pending: Sequence[_PendingCall], refusals: int = 0) -> None:
        """Plan all calls, store them in one write, and answer each; `refusals`: of earlier plans of theirs."""
        core, planned = self._core, list[tuple[_PendingCall, SubmitCall]]()
        with Reservations(core) as reserved:
            time_slice = TimeSlice(core, urgent=True)
            for one in pending:
                try:
                    drafts = await plan_submissions(
                        core, reserved, one.submissions, time_slice, decide=refusals < MAX_PLANS
                    )
                    planned.append((one, SubmitCall(one.by, drafts)))
                except Exception as error:  # fails this call only, even an internal error
                    _fail(one, error)
            if not planned:
                return
            calls = [call for _, call in planned]

            def store(tx: Tx, fx: Effects) -> list[CallOutcome]:
                return insert(tx, fx, self._quota, calls, core.clock.now())

            try:
                outcomes = await apply(core, reserved, store, brief=self._is_small(calls))
            except RainbowError as error:
                if isinstance(error, Unavailable) or len(calls) == 1:
                    raise
                outcomes = ApplyRefused(error)  # one call made the write fail for all
        if isinstance(outcomes, ApplyRefused):
            if outcomes.is_final or refusals >= MAX_PLANS:
                raise outcomes.error
            for one, _ in planned:
                try:
                    await self._store([one], refusals + 1)
                except Exception as error:  # the other calls go on
                    _fail(one, error)
            return
        for (one, _), outcome in zip(planned, outcomes, strict=True):
            if isinstance(outcome, RainbowError):
                _fail(one, outcome)
            elif not one.answer.done():
                one.answer.set_result(outcome)

    def _is_small(self, calls: Sequence[SubmitCall]) -> bool:
        """Return True if few short statements store the calls: no large batch or text, no lookups, no counting."""
        drafts = [draft for call in calls for draft in call.drafts]
        return (
            len(drafts) <= MAX_JOBS_PER_SHARED_WRITE
            and sum(map(_text_chars, drafts)) <= MAX_SHORT_TEXT_CHARS
            and not any(draft.waits_for for draft in drafts)
            and all(self._quota.likely_below_limit(owner, len(drafts)) for owner in {draft.owner for draft in drafts})
        )


def _text_chars(draft: NewJob) -> int:
    return len(draft.spec) + len(draft.source) + (len(draft.decision.own) if draft.decision is not None else 0)


def _fail(one: _PendingCall, error: BaseException) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
        one.answer.exception()  # mark it as retrieved: the caller may be gone
