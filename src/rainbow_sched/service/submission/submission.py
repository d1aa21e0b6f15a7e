"""Turn a submission into a new job: held, pending, bound to a cluster, or left to the scheduling loop.

Large batches are stored first and decided afterwards, so that the caller does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.model.decision import Chosen, Decision, Refuse, StoredDecision, Wait
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import MAX_NAME_CHARS, Hold, JobState, Terms
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decide import decide, wants_bids
from rainbow_sched.service.access.audit import ranges
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.core import Core
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question, pinned
from rainbow_sched.store.base import Dependency, NewJob

MAX_JOBS_DECIDED_FIRST = 64  # a larger batch is stored first
DECISIONS_PER_YIELD = 16  # then other tasks run
TIME_SLICE_SECONDS = 0.01
UNDECIDED = "waits for its decision"


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


class TimeSlice:
    """Time for which decisions have been made without a break; some policies are slow."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock.now()

    def expired(self) -> bool:
        """Return True if other tasks should run."""
        return self._clock.now() - self._begun >= TIME_SLICE_SECONDS

    async def yield_to_others(self) -> None:
        """Let other tasks run, and start a new slice."""
        await asyncio.sleep(0)
        self._begun = self._clock.now()


async def drafts_of(core: Core, submissions: Sequence[Submission], time_slice: TimeSlice) -> list[NewJob]:
    """Decide the submissions in turn, yielding to other tasks; large batches are not decided here."""
    if len(submissions) > MAX_JOBS_DECIDED_FIRST:
        return [_undecided_draft(core, submission, core.clock.now()) for submission in submissions]
    made: list[NewJob] = []
    try:
        for submission in submissions:
            made.append(_decide_draft(core, submission))
            if len(made) % DECISIONS_PER_YIELD == 0 or time_slice.expired():
                await time_slice.yield_to_others()
    except BaseException:  # also if the caller is cancelled
        release_reservations(core, made)
        raise
    return made


def _decide_draft(core: Core, submission: Submission) -> NewJob:
    """Return the job to store: held, pending, bound, or left to the scheduling loop if bids are wanted."""
    now = core.clock.now()
    if _initial_hold(submission, now)[0] is not None:
        return _undecided_draft(core, submission, now)
    terms = pinned(core.fleet, submission.terms)
    if terms is not submission.terms:
        submission = replace(submission, terms=terms)
    question = build_question(core, query_of(submission, core.ids.seed()))
    if wants_bids(question, core.policies):
        return _undecided_draft(core, submission, now)
    return _decided_draft(core, submission, decide(question, core.policies), now)


def _undecided_draft(core: Core, submission: Submission, now: float) -> NewJob:
    """Return a job that is held, or decided after it was stored."""
    hold, reason = _initial_hold(submission, now)
    return NewJob(
        owner=submission.owner,
        name=submission.name,
        spec=submission.request.text,
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
    """Return the placement query of a submission."""
    return PlacementQuery(submission.request, submission.terms, submission.owner, seed)


def _initial_hold(submission: Submission, now: float) -> tuple[Hold | None, str]:
    terms = submission.terms
    if terms.hold:
        return Hold.USER, "held; release with: rainbow release JOB"
    if submission.waits_for:
        kinds = dict.fromkeys(waited.kind for waited in submission.waits_for)
        jobs = {kind: ranges(d.job for d in submission.waits_for if d.kind == kind) for kind in kinds}
        return Hold.DEPENDENCY, "waits for " + ", ".join(f"{kind}:{numbers}" for kind, numbers in jobs.items())
    if terms.start_after is not None and terms.start_after > now:
        return Hold.TIME, "waits for its start time"
    return None, UNDECIDED


def _decided_draft(core: Core, submission: Submission, decision: Decision, now: float) -> NewJob:
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
        spec=submission.request.text,
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


def release_reservations(core: Core, drafts: list[NewJob]) -> None:
    """Release the reservations of jobs that were not stored."""
    for draft in drafts:
        if draft.cluster:
            core.fleet.release(draft.cluster, draft.token)
