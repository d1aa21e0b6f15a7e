"""Turn submissions into new jobs: held, waiting, assigned to a cluster, or left to the scheduling loop.

Large batches are stored first and decided afterwards, so that the caller does not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import MAX_NAME_CHARS, Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.ranges import format_ranges
from rainbow_sched.service.core import Core
from rainbow_sched.service.scheduling.plan import DECIDE_ALONE, PlannedJob, Reservations, TimeSlice, plan
from rainbow_sched.service.scheduling.question import PlacementQuery, pinned
from rainbow_sched.store.base import Dependency, NewJob

MAX_JOBS_DECIDED_FIRST = 64  # a larger batch is stored first


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
    if decide and len(submissions) <= MAX_JOBS_DECIDED_FIRST:
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
        _new_job(submission, there, hold, next(plans, DECIDE_ALONE) if hold is None else DECIDE_ALONE, now)
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
