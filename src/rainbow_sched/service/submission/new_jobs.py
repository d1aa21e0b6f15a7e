"""The write of new jobs: many calls in one transaction, each of them stored whole or refused alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from rainbow_sched.model.errors import Conflict, Invalid, NotFound, RainbowError
from rainbow_sched.model.job import Hold, Job, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import Actor, note_submitted
from rainbow_sched.service.access.principals import reach
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.question import unpinned
from rainbow_sched.service.submission.quota import Quota
from rainbow_sched.service.views.jobs import reaches
from rainbow_sched.store.base import NewJob, Tx


class Receipt(NamedTuple):
    """What a submitter is told; the job is stored."""

    id: int
    state: JobState
    cluster: str
    reason: str
    again: bool = False  # the same client token had made it before
    hold: Hold | None = None  # of one that was made before


@dataclass(frozen=True, slots=True)
class Call:
    """The jobs of one call, ready to be stored, and who made it."""

    by: Actor
    drafts: list[NewJob]


Outcome: TypeAlias = list[Receipt] | RainbowError
_Key: TypeAlias = tuple[str, str]  # owner and client token


def insert(tx: Tx, fx: Effects, quota: Quota, calls: Sequence[Call], now: float) -> list[Outcome]:
    """Check each call, then store what is new of all of them at once; a refusal concerns one call, and all of it.

    Raise AlreadyExists if two calls carry the same new client token: the second must come after the first.
    """
    known = _known(tx, calls)
    coming: dict[str, int] = {}
    fresh: list[NewJob] = []
    refused: dict[int, RainbowError] = {}
    for i, call in enumerate(calls):
        try:
            fresh += _checked(tx, quota, call, known, coming)
        except RainbowError as error:
            refused[i] = error
    ids = iter(tx.add_jobs(fresh))
    outcomes: list[Outcome] = []
    for i, call in enumerate(calls):
        outcomes.append(refused[i] if i in refused else [_receipt(tx, fx, draft, known, ids) for draft in call.drafts])
    note_submitted(tx, zip([call.by for call in calls], map(_fresh_ids, outcomes), strict=True), now)
    return outcomes


def _fresh_ids(outcome: Outcome) -> list[int]:
    return [] if isinstance(outcome, RainbowError) else [receipt.id for receipt in outcome if not receipt.again]


def _checked(tx: Tx, quota: Quota, call: Call, known: dict[_Key, Job], coming: dict[str, int]) -> list[NewJob]:
    """The drafts of a call that are new; `coming` counts those of the calls before it, by owner, and takes them in."""
    drafts = call.drafts
    if len(drafts) > 1:
        keys = [(draft.owner, draft.client_token) for draft in drafts if draft.client_token]
        if len(set(keys)) < len(keys):
            raise Invalid("two jobs of one batch carry the same client token")
    fresh = [draft for draft in drafts if not _again(tx, draft, known)] if known else drafts
    mine: dict[str, int] = {}
    for draft in fresh:
        mine[draft.owner] = mine.get(draft.owner, 0) + 1
    for owner, count in mine.items():
        quota.check(tx, owner, coming.get(owner, 0) + count)
    waits = {(waited.job, draft.owner) for draft in fresh if draft.waits_for for waited in draft.waits_for}
    if waits:
        _check_dependencies(tx, call.by, waits)
    for owner, count in mine.items():
        coming[owner] = coming.get(owner, 0) + count
    return fresh


def _again(tx: Tx, draft: NewJob, known: dict[_Key, Job]) -> bool:
    """True if the job was stored before; Conflict if another was under this token."""
    job = known.get((draft.owner, draft.client_token)) if draft.client_token else None
    if job is not None and not _same_body(tx, job, draft):
        raise Conflict(f"client token {draft.client_token!r} was used for another job, {job.id}; take a new token")
    return job is not None


def _receipt(tx: Tx, fx: Effects, draft: NewJob, known: dict[_Key, Job], ids: Iterator[int]) -> Receipt:
    job = known.get((draft.owner, draft.client_token)) if known and draft.client_token else None
    if job is not None:
        return Receipt(job.id, job.state, job.cluster, job.reason, again=True, hold=job.hold)
    if draft.waits_for:
        return _depending(tx, fx, next(ids), draft.submitted_at)
    return Receipt(next(ids), draft.state, draft.cluster, draft.reason)


def _check_dependencies(tx: Tx, by: Actor, waits: set[tuple[int, str]]) -> None:
    """A job waits for jobs that its submitter may see; any other is answered like one that does not exist."""
    for id, owner in sorted(waits):
        job = tx.job(id)
        if job is None or (job.owner != owner and not reaches(tx, reach(by.principal, "read"), job)):
            raise NotFound(f"there is no job {id} to wait for")


def _depending(tx: Tx, fx: Effects, id: int, now: float) -> Receipt:
    """What a new job waits for may have ended before: nobody would tell it later."""
    job = lifecycle.require_job(tx, id)
    if job.state is JobState.HELD and job.hold is Hold.DEPENDENCY:
        job = lifecycle.settle_dependent(tx, fx, job, now)
    return Receipt(job.id, job.state, job.cluster, job.reason)


def _known(tx: Tx, calls: Sequence[Call]) -> dict[_Key, Job]:
    """Jobs that were submitted before under the same client tokens."""
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
    """True if the draft asks for the job that was made; which registration of a cluster its names mean may differ."""
    was, now = (replace(terms, opened=tuple(map(unpinned, terms.opened))) for terms in (job.terms, draft.terms))
    if was.before_reruns:  # an older server stored it, and no number of reruns
        was, now = (replace(terms, before_reruns=False, reruns=0) for terms in (was, now))
    return (job.spec, job.name, was) == (draft.spec, draft.name, now) and set(tx.dependencies(job.id)) == set(
        draft.waits_for
    )
