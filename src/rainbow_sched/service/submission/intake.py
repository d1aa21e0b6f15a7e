"""Submit: calls that come while a write is under way are decided and stored together, in the next.

The answer is given only when the job, its decision and its events are durable. A client
token makes it safe to ask again: the same token and body give the same job.

Deciding many in a row costs half of what it costs one by one, between the work of the
network, and one write for many little more than one for each. So a write waits a little
for callers that are likely to come: as many as shared the last one.
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
from rainbow_sched.service.submission.new_jobs import Call, Outcome, Receipt, insert
from rainbow_sched.service.submission.submission import AT_ONCE, Submission, TimeSlice, drafts_of, undo
from rainbow_sched.service.wakeups import EVENTS, cluster_topic
from rainbow_sched.store.base import NewJob, Tx

MAX_BATCH = 10_000
TOGETHER = 64  # jobs that share one write: more would wait longer for each other than a write takes
SHORT = 500_000  # characters of texts that are written within a few milliseconds
GATHERED = 32  # calls after which a write waits for no more: the next come in while it is under way
PATIENCE = 0.00025  # seconds that a write waits for each caller it expects
PAUSES = 4  # how often it waits so long, if somebody came the last time


@dataclass(slots=True)
class _Waiting:
    """One call that waits to be decided and stored, and where its answer goes."""

    by: Actor
    submissions: Sequence[Submission]
    answer: asyncio.Future[list[Receipt]]


class Intake:
    """Gathers calls, and decides and stores together those that came while the last write was under way."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expected = 1  # calls of the last write, and those that came while it was under way

    async def submit(self, submissions: Sequence[Submission]) -> list[Receipt]:
        """Store all of them or none; answer when they are durable."""
        if len(submissions) > MAX_BATCH:
            raise Invalid(f"a batch has at most {MAX_BATCH} jobs; send {len(submissions)} in several calls")
        shortest = self._core.settings.shortest_lost_after
        if any(s.terms.lost_after is not None and s.terms.lost_after < shortest for s in submissions):
            raise Invalid(f"a run is given up after {shortest:g} s of silence or more; say a longer lost_after")
        long = len(submissions) if len(submissions) > AT_ONCE else 0
        self._core.jobs_arriving += long
        try:
            one = _Waiting(acting(), submissions, asyncio.get_running_loop().create_future())
            self._waiting.append(one)
            self._begin_or_wait()
            return await one.answer  # whoever stops waiting does not stop a write that has begun
        finally:
            self._core.jobs_arriving -= long

    def _begin_or_wait(self, pauses: int = PAUSES) -> None:
        """Begin the next write, unless one is under way or more callers are likely to come."""
        if self._writing is not None or not self._waiting:
            return
        wanted = min(self._expected, GATHERED)
        if len(self._waiting) >= wanted or not pauses:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._writing = asyncio.create_task(self._write())
        elif self._timer is None:
            later = asyncio.get_running_loop().call_later
            self._timer = later(PATIENCE * wanted, self._wait_on, len(self._waiting), pauses - 1)

    def _wait_on(self, before: int, pauses: int) -> None:
        self._timer = None
        self._begin_or_wait(pauses if len(self._waiting) > before else 0)

    async def _write(self) -> None:
        taken = self._next()
        try:
            await _store(self._core, [one for one in taken if not one.answer.done()])
        except Exception as error:  # a fault of ours: neither these calls nor those behind them wait in vain
            for one in taken:
                _fail(one, error)
        finally:
            self._writing, self._expected = None, len(taken) + len(self._waiting)
        self._begin_or_wait()

    def _next(self) -> list[_Waiting]:
        """The calls that share the next write: not more jobs than a short one, unless it is one call's."""
        jobs = count = 0
        for one in self._waiting:
            jobs += len(one.submissions)
            if count and jobs > TOGETHER:
                break
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken


async def _store(core: Core, waiting: list[_Waiting], *, again: bool = True) -> None:
    """Decide them all, write them at once, and answer each; `again`: what can be mended is tried once more."""
    calls: list[tuple[_Waiting, Call]] = []
    spell = TimeSlice(core.clock)
    for one in waiting:
        try:
            calls.append((one, Call(one.by, await drafts_of(core, one.submissions, spell))))
        except Exception as error:  # even a fault of ours is an answer to this call alone
            _fail(one, error)
    if not calls:
        return
    drafted = [call for _, call in calls]

    def work(tx: Tx) -> tuple[list[Outcome], Effects]:
        effects = Effects()
        outcomes = insert(tx, effects, core.quota, drafted, core.clock.now())
        store_unsettled(tx, effects)
        return outcomes, effects

    try:
        outcomes, effects = await core.commit(work, brief=_brief(core, drafted))
    except Exception as error:  # whatever the store raises, every submitter in this write gets an answer
        for call in drafted:
            undo(core, call.drafts)
        if again and (isinstance(error, NotFound) or (len(calls) > 1 and _of_one(error))):
            for one, _ in calls:  # each on its own, and where the cluster that was chosen has just left, once more
                await _store(core, [one], again=len(calls) > 1)
        else:
            for one, _ in calls:
                _fail(one, error)
        return
    for (one, call), outcome in zip(calls, outcomes, strict=True):
        _answer(core, one, call.drafts, outcome)
    core.apply_effects(effects)
    core.notifier.ring(EVENTS)


def _of_one(error: Exception) -> bool:
    """True if one call spoils it for all.

    When the store was out of reach, they may all be stored: only who asks again knows what to do.
    """
    return isinstance(error, RainbowError) and not isinstance(error, Unavailable)


def _brief(core: Core, calls: list[Call]) -> bool:
    """True if they are stored with a few short statements: no long batch or text, nothing to look up or to count."""
    drafts = [draft for call in calls for draft in call.drafts]
    return (
        len(drafts) <= TOGETHER
        and sum(map(_length, drafts)) <= SHORT
        and not any(draft.waits_for for draft in drafts)
        and all(core.quota.at_ease(owner, len(drafts)) for owner in {draft.owner for draft in drafts})
    )


def _length(draft: NewJob) -> int:
    return len(draft.spec) + len(draft.source) + (len(draft.decision.own) if draft.decision is not None else 0)


def _answer(core: Core, one: _Waiting, drafts: list[NewJob], outcome: Outcome) -> None:
    if isinstance(outcome, RainbowError):
        undo(core, drafts)
        _fail(one, outcome)
        return
    queued: list[int] = []
    for draft, receipt in zip(drafts, outcome, strict=True):
        if receipt.again:
            undo(core, [draft])
        state = receipt.state if receipt.again else draft.state
        if state is JobState.QUEUED:
            queued.append(receipt.id)
        elif state is JobState.BOUND:
            core.notifier.ring(cluster_topic(receipt.cluster))
        elif _waits_for_room(core, draft, receipt):
            core.pending.put(
                receipt.id, draft.terms.priority, shape_of(core.fleet, draft.owner, draft.spec, draft.terms)
            )
    core.pending.add_queued(queued)
    if not one.answer.done():
        one.answer.set_result(outcome)


def _waits_for_room(core: Core, draft: NewJob, receipt: Receipt) -> bool:
    """True if the job belongs on the shelf and is not there."""
    if receipt.again:  # it is not there if nobody heard of the commit that stored it
        return receipt.hold is Hold.NOTHING_FITS and core.pending.pile_of(receipt.id) is None
    return draft.hold is Hold.NOTHING_FITS


def _fail(one: _Waiting, error: BaseException) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
        one.answer.exception()  # its caller may be gone; that is no reason for a warning
