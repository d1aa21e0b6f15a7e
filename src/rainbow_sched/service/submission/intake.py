"""Group commit for submissions: calls that arrive during a write are decided and stored in the next one.

A call is answered only when its jobs, decisions and events are durable. The client token is an
idempotency key: the same token and body return the same job. A write waits briefly for as many
callers as shared the last one, because deciding and storing together is cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rainbow_sched.model.errors import Invalid, RainbowError, Unavailable
from rainbow_sched.service.access.audit import Actor, acting
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.applier import MAX_PLANS, ApplyRefused, apply
from rainbow_sched.service.scheduling.plan import Reservations, TimeSlice
from rainbow_sched.service.submission.new_jobs import CallOutcome, Quota, Receipt, SubmitCall, insert
from rainbow_sched.service.submission.submission import MAX_JOBS_DECIDED_FIRST, Submission, plan_submissions
from rainbow_sched.store.base import NewJob, Tx

MAX_JOBS_PER_CALL = 10_000
MAX_JOBS_PER_WRITE = 64  # of several calls; more would wait longer for each other than a write takes
MAX_SHORT_TEXT_CHARS = 500_000  # written within a few milliseconds
MAX_EXPECTED_CALLS = 32  # a write waits for no more than this
WAIT_SECONDS_PER_CALL = 0.00025
MAX_WAITS = 4  # it waits again only if a call arrived


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
        long = len(submissions) if len(submissions) > MAX_JOBS_DECIDED_FIRST else 0
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
            if count and jobs > MAX_JOBS_PER_WRITE:
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
            try:
                outcomes = await apply(core, reserved, partial(self._insert, calls), brief=self._is_small(calls))
            except RainbowError as error:
                if isinstance(error, Unavailable) or len(calls) == 1:
                    raise
                outcomes = ApplyRefused(error)  # one call made the write fail for all
        if isinstance(outcomes, ApplyRefused):
            if outcomes.is_final or refusals >= MAX_PLANS:
                raise outcomes.error
            for one, _ in planned:
                await self._store_alone(one, refusals + 1)
            return
        for (one, _), outcome in zip(planned, outcomes, strict=True):
            if isinstance(outcome, RainbowError):
                _fail(one, outcome)
            elif not one.answer.done():
                one.answer.set_result(outcome)

    async def _store_alone(self, one: _PendingCall, refusals: int) -> None:
        try:
            await self._store([one], refusals)
        except Exception as error:  # the other calls go on
            _fail(one, error)

    def _insert(self, calls: Sequence[SubmitCall], tx: Tx, fx: Effects) -> list[CallOutcome]:
        return insert(tx, fx, self._quota, calls, self._core.clock.now())

    def _is_small(self, calls: Sequence[SubmitCall]) -> bool:
        """Return True if few short statements store the calls: no large batch or text, no lookups, no counting."""
        drafts = [draft for call in calls for draft in call.drafts]
        return (
            len(drafts) <= MAX_JOBS_PER_WRITE
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
