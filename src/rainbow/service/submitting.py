"""Submit: each call is decided as it comes; what was decided while a write is under way is stored with the next.

The answer is given only when the job, its decision and its events are durable. A client
token makes it safe to ask again: the same token and body give the same job. A long batch is
stored first and decided right after, so that whoever sends it does not wait for each choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rainbow.model.decision import Chosen, Decision, Refuse, Stored, Wait
from rainbow.model.errors import Invalid, RainbowError
from rainbow.model.job import MAX_NAME, Hold, JobState, Terms
from rainbow.model.request import Request
from rainbow.scheduler.decide import decide, wants_bids
from rainbow.service.auditing import acting
from rainbow.service.core import Core
from rainbow.service.deciding import Ask, pinned, question
from rainbow.service.effects import Effects
from rainbow.service.hub import EVENTS, cluster_bell
from rainbow.service.lifecycle import keep_unsettled
from rainbow.service.new_jobs import Call, Outcome, Receipt, insert
from rainbow.service.shelf import shape_of
from rainbow.store.base import Dependency, Draft, Tx

MAX_BATCH = 10_000
AT_ONCE = 64  # jobs of one call that are decided before they are stored; a longer batch is decided after
TOGETHER = 64  # calls that share one write: more would wait longer for each other than a write takes
GATHERED = 32  # calls after which a write waits for no more of them: the next are decided while it is under way
QUIET = 10  # turns of the event loop in which nobody came, after which a write waits no more
BUSY = 12  # calls in one write: after that the next waits a few breaths, since more are on their way
BREATH, BREATHS = 0.001, 6  # seconds, and how many of them at the most; one in which nobody came is the last
BETWEEN = 16  # decisions of a batch before other calls have a turn
UNDECIDED = "waits for its decision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as it was handed in, already read and checked."""

    owner: str
    request: Request
    spec: str
    source: str = ""
    name: str = ""
    terms: Terms = field(default_factory=Terms)
    client_token: str = ""
    waits_for: tuple[Dependency, ...] = ()

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not self.name.isprintable():
            raise Invalid(f"a job's name has at most {MAX_NAME} printable characters")
        if len(self.client_token) > MAX_NAME:
            raise Invalid(f"a client token has at most {MAX_NAME} characters")


@dataclass(slots=True)
class _Decided:
    """One call, decided and not yet stored, and where its answer goes."""

    submissions: Sequence[Submission]
    call: Call
    answer: asyncio.Future[list[Receipt]]


class Intake:
    """Decides each call as it comes, and stores together what was decided while the last write was under way."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._room = asyncio.Semaphore(2 * TOGETHER)  # nobody is decided long before the store can take it
        self._decided: list[_Decided] = []
        self._writing: asyncio.Task[None] | None = None
        self._last = 0  # how many calls shared the last write

    async def submit(self, submissions: Sequence[Submission]) -> list[Receipt]:
        """Store all of them or none; answer when they are durable."""
        if len(submissions) > MAX_BATCH:
            raise Invalid(f"a batch has at most {MAX_BATCH} jobs; send {len(submissions)} in several calls")
        shortest = self._core.settings.shortest_lost_after
        if any(s.terms.lost_after is not None and s.terms.lost_after < shortest for s in submissions):
            raise Invalid(f"a run is given up after {shortest:g} s of silence or more; say a longer lost_after")
        long = len(submissions) if len(submissions) > AT_ONCE else 0
        self._core.arriving += long
        try:
            return await self._take(submissions)
        finally:
            self._core.arriving -= long

    async def _take(self, submissions: Sequence[Submission]) -> list[Receipt]:
        await self._room.acquire()
        try:
            core = self._core
            drafts = [_draft(core, submissions[0])] if len(submissions) == 1 else await _drafts(core, submissions)
            decided = _Decided(submissions, Call(acting(), drafts), asyncio.get_running_loop().create_future())
            self._decided.append(decided)
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._write())
            return await decided.answer  # whoever stops waiting does not stop a write that has begun
        finally:
            self._room.release()

    async def _gathered(self) -> None:
        """Let those join who are just coming in: one write for many costs little more than one for each."""
        pause, most, patience = (0.0, QUIET * GATHERED, QUIET) if self._last < BUSY else (BREATH, BREATHS, 1)
        quiet, seen = 0, 0
        for _ in range(most):
            quiet = quiet + 1 if len(self._decided) == seen else 0
            seen = len(self._decided)
            if quiet == patience or seen >= GATHERED:
                return
            await asyncio.sleep(pause)

    async def _write(self) -> None:
        while self._decided:
            await self._gathered()
            taken, self._decided = self._decided[:TOGETHER], self._decided[TOGETHER:]
            waited_for = [one for one in taken if not one.answer.done()]
            for one in taken:
                if one.answer.done():  # its caller hung up
                    _undo(self._core, one.call.drafts)
            self._last = len(waited_for)
            try:
                if waited_for:
                    await _store(self._core, waited_for)
            except Exception as error:  # a fault of ours: neither these calls nor those behind them wait in vain
                for one in waited_for:
                    _fail(one, error)


async def _store(core: Core, decided: list[_Decided]) -> None:
    """Write them all at once, and answer each."""
    calls = [one.call for one in decided]

    def work(tx: Tx) -> tuple[list[Outcome], Effects]:
        effects = Effects()
        outcomes = insert(tx, effects, core.quota, calls, core.clock.now())
        keep_unsettled(tx, effects)
        return outcomes, effects

    try:
        outcomes, effects = await core.store.write(work)
    except Exception as error:  # whatever the store raises, every submitter in this write gets an answer
        for call in calls:
            _undo(core, call.drafts)
        if len(decided) > 1 and isinstance(error, RainbowError):
            for one in decided:  # one of them spoiled it for all: each on its own
                await _store_alone(core, one)
        else:
            for one in decided:
                _fail(one, error)
        return
    for one, outcome in zip(decided, outcomes, strict=True):
        _answer(core, one, outcome)
    core.carry_out(effects)
    core.hub.ring(EVENTS)


async def _store_alone(core: Core, one: _Decided) -> None:
    """Decide a call again, since what was set aside for it was given back, and store it by itself."""
    try:
        one.call = Call(one.call.by, await _drafts(core, one.submissions))
    except RainbowError as error:
        _fail(one, error)
    else:
        await _store(core, [one])


async def _drafts(core: Core, submissions: Sequence[Submission]) -> list[Draft]:
    """Decide one after the other, and let other calls go on in between; a long batch is not decided here."""
    if len(submissions) > AT_ONCE:
        return [_undecided(core, submission, core.clock.now()) for submission in submissions]
    made: list[Draft] = []
    try:
        for submission in submissions:
            made.append(_draft(core, submission))
            if len(made) % BETWEEN == 0:
                await asyncio.sleep(0)
    except BaseException:  # also when the caller goes away in between
        _undo(core, made)
        raise
    return made


def _answer(core: Core, one: _Decided, outcome: Outcome) -> None:
    drafts = one.call.drafts
    if isinstance(outcome, RainbowError):
        _undo(core, drafts)
        _fail(one, outcome)
        return
    queued: list[int] = []
    for draft, receipt in zip(drafts, outcome, strict=True):
        if receipt.again:
            _undo(core, [draft])
        elif draft.state is JobState.QUEUED:
            queued.append(receipt.id)
        elif draft.state is JobState.BOUND:
            core.hub.ring(cluster_bell(draft.cluster))
        elif draft.hold is Hold.NOTHING_FITS:
            core.shelf.put(receipt.id, draft.terms.priority, shape_of(core.fleet, draft.owner, draft.spec, draft.terms))
    core.shelf.add_queued(queued)
    if not one.answer.done():
        one.answer.set_result(outcome)


def _fail(one: _Decided, error: BaseException) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
        one.answer.exception()  # its caller may be gone; that is no reason for a warning


def _draft(core: Core, submission: Submission) -> Draft:
    """What will be stored: held, waiting, given to a cluster at once, or left to the decider if bids are wanted."""
    now = core.clock.now()
    if _held(submission, now)[0] is not None:
        return _undecided(core, submission, now)
    terms = pinned(core.fleet, submission.terms)
    if terms is not submission.terms:
        submission = replace(submission, terms=terms)
    asked = question(core, ask_of(submission, core.ids.seed()))
    if wants_bids(asked, core.policies):
        return _undecided(core, submission, now)
    return _decided(core, submission, decide(asked, core.policies), now)


def _undecided(core: Core, submission: Submission, now: float) -> Draft:
    """A job that is held, or to be decided after it was stored."""
    hold, reason = _held(submission, now)
    return Draft(
        owner=submission.owner,
        name=submission.name,
        spec=submission.spec,
        source=submission.source,
        terms=pinned(core.fleet, submission.terms),
        state=JobState.QUEUED if hold is None else JobState.HELD,
        hold=hold,
        reason=reason,
        client_token=submission.client_token,
        submitted_at=now,
        waits_for=submission.waits_for,
    )


def ask_of(submission: Submission, seed: int) -> Ask:
    """The question that a submission puts to the fleet."""
    return Ask(
        request=submission.request, spec=submission.spec, terms=submission.terms, owner=submission.owner, seed=seed
    )


def _held(submission: Submission, now: float) -> tuple[Hold | None, str]:
    terms = submission.terms
    if terms.hold:
        return Hold.USER, "held by its owner; release it with: rainbow release JOB"
    if submission.waits_for:
        return Hold.DEPENDENCY, "waits for " + ", ".join(f"{d.kind}:{d.job}" for d in submission.waits_for)
    if terms.start_after is not None and terms.start_after > now:
        return Hold.TIME, "waits for its start time"
    return None, UNDECIDED


def _decided(core: Core, submission: Submission, decision: Decision, now: float) -> Draft:
    record, outcome = Stored.of(decision), decision.outcome
    state, hold, cluster, token = JobState.BOUND, None, "", ""
    if isinstance(outcome, Chosen):
        cluster, token, reason = outcome.cluster, core.ids.fence(), f"given to {outcome.cluster}"
        core.fleet.place(cluster, token, submission.request, submission.owner)
    else:
        reason = "; ".join(outcome.reasons)
        if isinstance(outcome, Refuse):
            state = JobState.INFEASIBLE
        else:
            assert isinstance(outcome, Wait)
            state, hold = JobState.HELD, Hold.NOTHING_FITS
    return Draft(
        owner=submission.owner,
        name=submission.name,
        spec=submission.spec,
        source=submission.source,
        terms=submission.terms,
        state=state,
        hold=hold,
        reason=reason,
        client_token=submission.client_token,
        submitted_at=now,
        cluster=cluster,
        token=token,
        decision=record,
        evaluations=1,
        evaluated_at=now,
        waits_for=submission.waits_for,
    )


def _undo(core: Core, drafts: list[Draft]) -> None:
    """Give back what was set aside for jobs that were not stored."""
    for draft in drafts:
        if draft.cluster:
            core.fleet.take_back(draft.cluster, draft.token)
