"""What a submission becomes: held, waiting, given to a cluster, or left to the decider.

A long batch is stored first and decided right after, so that whoever sends it does not wait
for each choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.model.decision import Chosen, Decision, Refuse, StoredDecision, Wait
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import MAX_NAME, Hold, JobState, Terms
from rainbow_sched.model.request import Request
from rainbow_sched.selection.decide import decide, wants_bids
from rainbow_sched.service.access.audit import ranges
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.core import Core
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question, pinned
from rainbow_sched.store.base import Dependency, NewJob

AT_ONCE = 64  # jobs of one call that are decided before they are stored; a longer batch is decided after
BETWEEN = 16  # decisions of a batch before other calls have a turn
LONG = 0.01  # seconds of decisions in a row after which they have one, too
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


class TimeSlice:
    """How long decisions have been made in a row: some policies take long for each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock.now()

    def expired(self) -> bool:
        """True if somebody else should have a turn."""
        return self._clock.now() - self._begun >= LONG

    async def yield_to_others(self) -> None:
        """Let others have theirs."""
        await asyncio.sleep(0)
        self._begun = self._clock.now()


async def drafts_of(core: Core, submissions: Sequence[Submission], spell: TimeSlice) -> list[NewJob]:
    """Decide one after the other, and let other calls go on in between; a long batch is not decided here."""
    if len(submissions) > AT_ONCE:
        return [_undecided(core, submission, core.clock.now()) for submission in submissions]
    made: list[NewJob] = []
    try:
        for submission in submissions:
            made.append(_draft(core, submission))
            if len(made) % BETWEEN == 0 or spell.expired():
                await spell.yield_to_others()
    except BaseException:  # also when the caller goes away in between
        undo(core, made)
        raise
    return made


def _draft(core: Core, submission: Submission) -> NewJob:
    """What will be stored: held, waiting, given to a cluster at once, or left to the decider if bids are wanted."""
    now = core.clock.now()
    if _held(submission, now)[0] is not None:
        return _undecided(core, submission, now)
    terms = pinned(core.fleet, submission.terms)
    if terms is not submission.terms:
        submission = replace(submission, terms=terms)
    question = build_question(core, query_of(submission, core.ids.seed()))
    if wants_bids(question, core.policies):
        return _undecided(core, submission, now)
    return _decided(core, submission, decide(question, core.policies), now)


def _undecided(core: Core, submission: Submission, now: float) -> NewJob:
    """A job that is held, or to be decided after it was stored."""
    hold, reason = _held(submission, now)
    return NewJob(
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


def query_of(submission: Submission, seed: int) -> PlacementQuery:
    """The question that a submission puts to the fleet."""
    return PlacementQuery(submission.request, submission.spec, submission.terms, submission.owner, seed)


def _held(submission: Submission, now: float) -> tuple[Hold | None, str]:
    terms = submission.terms
    if terms.hold:
        return Hold.USER, "held by its owner; release it with: rainbow release JOB"
    if submission.waits_for:
        kinds = dict.fromkeys(waited.kind for waited in submission.waits_for)
        jobs = {kind: ranges(d.job for d in submission.waits_for if d.kind == kind) for kind in kinds}
        return Hold.DEPENDENCY, "waits for " + ", ".join(f"{kind}:{numbers}" for kind, numbers in jobs.items())
    if terms.start_after is not None and terms.start_after > now:
        return Hold.TIME, "waits for its start time"
    return None, UNDECIDED


def _decided(core: Core, submission: Submission, decision: Decision, now: float) -> NewJob:
    record, outcome = StoredDecision.of(decision), decision.outcome
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
    return NewJob(
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


def undo(core: Core, drafts: list[NewJob]) -> None:
    """Give back what was set aside for jobs that were not stored."""
    for draft in drafts:
        if draft.cluster:
            core.fleet.release(draft.cluster, draft.token)
