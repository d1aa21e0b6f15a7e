"""Group commit for submissions: calls that arrive during a write are decided and stored in the next one.

A call is answered only when its jobs, decisions and events are durable. The client token is an
idempotency key: the same token and body return the same job. A write waits briefly for as many
callers as shared the last one, because deciding and storing together is cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rainbow_sched.model.errors import Invalid, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, JobState
from rainbow_sched.service.access.audit import Actor, acting
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.lifecycle import store_unsettled
from rainbow_sched.service.scheduling.pending import shape_of
from rainbow_sched.service.submission.new_jobs import CallOutcome, Receipt, SubmitCall, insert
from rainbow_sched.service.submission.submission import (
    MAX_JOBS_DECIDED_FIRST,
    Submission,
    TimeSlice,
    drafts_of,
    release_reservations,
)
from rainbow_sched.service.wakeups import EVENTS, cluster_topic
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
            await _store(self._core, [one for one in taken if not one.answer.done()])
        except Exception as error:  # internal error: every call gets an answer
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


async def _store(core: Core, pending: list[_PendingCall], *, retry: bool = True) -> None:
    """Decide all calls, store them in one write, and answer each; `retry`: run failed calls once more."""
    drafted: list[tuple[_PendingCall, SubmitCall]] = []
    time_slice = TimeSlice(core.clock)
    for one in pending:
        try:
            drafted.append((one, SubmitCall(one.by, await drafts_of(core, one.submissions, time_slice))))
        except Exception as error:  # fails this call only, even an internal error
            _fail(one, error)
    if not drafted:
        return
    calls = [call for _, call in drafted]

    def work(tx: Tx) -> tuple[list[CallOutcome], Effects]:
        effects = Effects()
        outcomes = insert(tx, effects, core.quota, calls, core.clock.now())
        store_unsettled(tx, effects)
        return outcomes, effects

    try:
        outcomes, effects = await core.commit(work, brief=_is_small(core, calls))
    except Exception as error:  # every call gets an answer
        for call in calls:
            release_reservations(core, call.drafts)
        if retry and (isinstance(error, NotFound) or (len(calls) > 1 and _caused_by_one_call(error))):
            for one, _ in drafted:  # individually; again if the chosen cluster was just removed
                await _store(core, [one], retry=len(calls) > 1)
        else:
            for one, _ in drafted:
                _fail(one, error)
        return
    for (one, call), outcome in zip(drafted, outcomes, strict=True):
        _answer(core, one, call.drafts, outcome)
    core.apply_effects(effects)
    core.notifier.notify(EVENTS)


def _caused_by_one_call(error: Exception) -> bool:
    """Return True if one call made the write fail for all.

    If the store is unavailable, all of them may be stored: only the callers can decide to retry.
    """
    return isinstance(error, RainbowError) and not isinstance(error, Unavailable)


def _is_small(core: Core, calls: list[SubmitCall]) -> bool:
    """Return True if few short statements store the calls: no large batch or text, no lookups, no counting."""
    drafts = [draft for call in calls for draft in call.drafts]
    return (
        len(drafts) <= MAX_JOBS_PER_WRITE
        and sum(map(_text_chars, drafts)) <= MAX_SHORT_TEXT_CHARS
        and not any(draft.waits_for for draft in drafts)
        and all(core.quota.likely_below_limit(owner, len(drafts)) for owner in {draft.owner for draft in drafts})
    )


def _text_chars(draft: NewJob) -> int:
    return len(draft.spec) + len(draft.source) + (len(draft.decision.own) if draft.decision is not None else 0)


def _answer(core: Core, one: _PendingCall, drafts: list[NewJob], outcome: CallOutcome) -> None:
    if isinstance(outcome, RainbowError):
        release_reservations(core, drafts)
        _fail(one, outcome)
        return
    queued: list[int] = []
    for draft, receipt in zip(drafts, outcome, strict=True):
        if receipt.again:
            release_reservations(core, [draft])
        state = receipt.state if receipt.again else draft.state
        if state is JobState.QUEUED:
            queued.append(receipt.id)
        elif state is JobState.BOUND:
            core.notifier.notify(cluster_topic(receipt.cluster))
        elif _must_wait(core, draft, receipt):
            core.pending.add(
                receipt.id, draft.terms.priority, shape_of(core.fleet, draft.owner, draft.spec, draft.terms)
            )
    core.pending.add_queued(queued)
    if not one.answer.done():
        one.answer.set_result(outcome)


def _must_wait(core: Core, draft: NewJob, receipt: Receipt) -> bool:
    """Return True if the job must be added to the pending ones."""
    if receipt.again:  # missing if the outcome of its commit was unknown
        return receipt.hold is Hold.NOTHING_FITS and core.pending.group_of(receipt.id) is None
    return draft.hold is Hold.NOTHING_FITS


def _fail(one: _PendingCall, error: BaseException) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
        one.answer.exception()  # mark it as retrieved: the caller may be gone
