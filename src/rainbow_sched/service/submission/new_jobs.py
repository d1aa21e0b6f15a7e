"""Store new jobs: many calls in one transaction, each call stored as a whole or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from rainbow_sched.model.errors import Conflict, Exhausted, Invalid, NotFound, RainbowError
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import Actor, note_submitted
from rainbow_sched.service.access.principals import reach
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.plan import unpinned
from rainbow_sched.service.views.jobs import reaches
from rainbow_sched.store.base import JobSelection, NewJob, Tx, WaitingJob

SLACK_EVENTS = 1_000  # allowance for events not yet seen


class Receipt(NamedTuple):
    """The answer to a submitter about one stored job."""

    id: int
    state: JobState
    cluster: str
    reason: str
    again: bool = False  # it was stored before under this client token
    hold: Hold | None = None  # of a job that was stored before


@dataclass(frozen=True, slots=True)
class SubmitCall:
    """The decided jobs of one call, and its caller."""

    by: Actor
    drafts: list[NewJob]


CallOutcome: TypeAlias = list[Receipt] | RainbowError
_TokenKey: TypeAlias = tuple[str, str]  # owner and client token


def insert(tx: Tx, fx: Effects, quota: Quota, calls: Sequence[SubmitCall], now: float) -> list[CallOutcome]:
    """Check each call, then store the new jobs of all at once; a refusal concerns the whole of one call.

    Raise AlreadyExists if two calls carry the same new client token: the second must be stored later.
    """
    known = _known(tx, calls)
    planned: dict[str, int] = {}
    new: list[NewJob] = []
    refused: dict[int, RainbowError] = {}
    for i, call in enumerate(calls):
        try:
            new += _checked(tx, quota, call, known, planned)
        except RainbowError as error:
            refused[i] = error
    ids = iter(tx.add_jobs(new))
    outcomes: list[CallOutcome] = []
    for i, call in enumerate(calls):
        outcome = refused[i] if i in refused else [_receipt(tx, fx, draft, known, ids) for draft in call.drafts]
        _add_effects(fx, call.drafts, outcome)
        outcomes.append(outcome)
    stored = [[] if isinstance(one, RainbowError) else [r.id for r in one if not r.again] for one in outcomes]
    note_submitted(tx, zip([call.by for call in calls], stored, strict=True), now)
    return outcomes


def _add_effects(fx: Effects, drafts: Sequence[NewJob], outcome: CallOutcome) -> None:
    """Wake those who go on with the new jobs, and release what was reserved for jobs that are not stored."""
    if isinstance(outcome, RainbowError):
        fx.released += [(draft.cluster, draft.token) for draft in drafts if draft.cluster]
        return
    fx.events = True
    for draft, receipt in zip(drafts, outcome, strict=True):
        if receipt.again and draft.cluster:
            fx.released.append((draft.cluster, draft.token))
        # A job that was stored before is missing in memory if the outcome of its commit was unknown.
        state, hold = (receipt.state, receipt.hold) if receipt.again else (draft.state, draft.hold)
        if state is JobState.BOUND:
            fx.wake.add(receipt.cluster)
        elif state is JobState.QUEUED:
            fx.queued.append(receipt.id)
        elif hold is Hold.NOTHING_FITS:
            terms = draft.terms
            fx.waiting.append((WaitingJob(receipt.id, terms.priority, draft.spec, terms, draft.owner), ""))


def _checked(
    tx: Tx, quota: Quota, call: SubmitCall, known: dict[_TokenKey, Job], planned: dict[str, int]
) -> list[NewJob]:
    """Return the new jobs of a call; `planned` holds the jobs of earlier calls by owner, and is updated."""
    drafts = call.drafts
    if len(drafts) > 1:
        keys = [(draft.owner, draft.client_token) for draft in drafts if draft.client_token]
        if len(set(keys)) < len(keys):
            raise Invalid("two jobs of one batch carry the same client token")
    new = [draft for draft in drafts if not _is_repeated(tx, draft, known)] if known else drafts
    mine: dict[str, int] = {}
    for draft in new:
        mine[draft.owner] = mine.get(draft.owner, 0) + 1
    for owner, count in mine.items():
        quota.check(tx, owner, planned.get(owner, 0) + count)
    waits = {(waited.job, draft.owner) for draft in new if draft.waits_for for waited in draft.waits_for}
    if waits:
        _check_dependencies(tx, call.by, waits)
    for owner, count in mine.items():
        planned[owner] = planned.get(owner, 0) + count
    return new


def _is_repeated(tx: Tx, draft: NewJob, known: dict[_TokenKey, Job]) -> bool:
    """Return True if the job was stored before; raise Conflict if the token was used for another job."""
    job = known.get((draft.owner, draft.client_token)) if draft.client_token else None
    if job is not None and not _same_body(tx, job, draft):
        raise Conflict(f"client token {draft.client_token!r} was used for another job, {job.id}; take a new token")
    return job is not None


def _receipt(tx: Tx, fx: Effects, draft: NewJob, known: dict[_TokenKey, Job], ids: Iterator[int]) -> Receipt:
    job = known.get((draft.owner, draft.client_token)) if known and draft.client_token else None
    if job is not None:
        return Receipt(job.id, job.state, job.cluster, job.reason, again=True, hold=job.hold)
    if draft.waits_for:
        return _dependent_receipt(tx, fx, next(ids), draft.submitted_at)
    return Receipt(next(ids), draft.state, draft.cluster, draft.reason)


def _check_dependencies(tx: Tx, by: Actor, waits: set[tuple[int, str]]) -> None:
    """Raise NotFound for dependencies that do not exist or that the submitter may not see."""
    for id, owner in sorted(waits):
        job = tx.job(id)
        if job is None or (job.owner != owner and not reaches(tx, reach(by.principal, "read"), job)):
            raise NotFound(f"there is no job {id} to wait for")


def _dependent_receipt(tx: Tx, fx: Effects, id: int, now: float) -> Receipt:
    """Settle a new job whose dependencies may have ended before it was stored."""
    job = lifecycle.require_job(tx, id)
    if job.state is JobState.HELD and job.hold is Hold.DEPENDENCY:
        job = lifecycle.settle_dependent(tx, fx, job, now)
    return Receipt(job.id, job.state, job.cluster, job.reason)


def _known(tx: Tx, calls: Sequence[SubmitCall]) -> dict[_TokenKey, Job]:
    """Return the jobs that were stored before under the same client tokens."""
    tokens: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        for draft in call.drafts:
            if draft.client_token:
                tokens[draft.owner].append(draft.client_token)
    return {
        (owner, token): job
        for owner, wanted in tokens.items()
        for token, job in tx.jobs_by_tokens(owner, wanted).items()
    }


def _same_body(tx: Tx, job: Job, draft: NewJob) -> bool:
    """Return True if the new job equals the stored one; ids behind cluster names may differ."""
    was, now = (replace(terms, opened=tuple(map(unpinned, terms.opened))) for terms in (job.terms, draft.terms))
    if was.before_reruns:  # stored by a server without reruns
        was, now = (replace(terms, before_reruns=False, reruns=0) for terms in (was, now))
    return (job.spec, job.name, was) == (draft.spec, draft.name, now) and set(tx.dependencies(job.id)) == set(
        draft.waits_for
    )


class _JobCount(NamedTuple):
    living: int
    at: int  # number of the last event at the count


@dataclass(slots=True)
class Quota:
    """Counts an owner's jobs only when the last count is too old to decide.

    Each job begins and ends with an event of its own, so the number of events since a count bounds the
    error. Used inside write transactions, which are serial.
    """

    limit: int
    _last: dict[str, _JobCount] = field(default_factory=dict)
    _seq: int | None = None  # number of the last event seen

    def likely_below_limit(self, owner: str, new_jobs: int) -> bool:
        """Return True if `check` will most likely not have to count."""
        last = self._last.get(owner, _JobCount(0, 0))
        return self._seq is not None and last.living + self._seq - last.at + SLACK_EVENTS + new_jobs <= self.limit

    def check(self, tx: Tx, owner: str, new_jobs: int) -> None:
        """Raise Exhausted if `owner` would exceed the limit with this many new jobs."""
        seq = self._seq = tx.last_seq()
        last = self._last.get(owner, _JobCount(0, 0))
        since = seq - last.at
        if last.living + since + new_jobs <= self.limit:
            return
        if last.living - since + new_jobs <= self.limit:
            counts = tx.count_jobs(JobSelection(owners=frozenset({owner})))
            living = sum(number for state, number in counts.items() if not state.terminal)
            last = self._last[owner] = _JobCount(living, seq)
        if last.living + new_jobs > self.limit:
            message = f"{owner} would have more than {self.limit} jobs that have not ended, which is the limit"
            raise Exhausted(message, retry_after=60)
