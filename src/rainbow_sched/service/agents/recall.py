"""Apply an agent's recall after a restore: attempts that the database lost, and ends that it missed.

No I/O beside the open transaction. The newest attempt of a job that a cluster may have started wins:
older live attempts in the restored copy had ended when it was made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from rainbow_sched.model.attempt import BEFORE_CONFIRM, Attempt, AttemptState
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import MAX_NAME_CHARS, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef, KnownAttempt, Report, SyncRequest, UnknownReport, journal_of
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents import reports
from rainbow_sched.service.agents.answer_draft import SyncTransaction
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.restore import withdraw_unconfirmed
from rainbow_sched.store.base import NewJob, ReportState, RestoreFinding, Tx

NEVER_RAN = frozenset({AttemptState.WITHDRAWN, AttemptState.RETURNED, AttemptState.LAPSED})
OTHER_JOURNAL = "its agent has another journal than when the copy was made, so it cannot tell what ran before"
NO_JOURNAL = "its agent has a journal that never heard of this server, so it cannot tell whether one ran before"
FORGOTTEN = "its agent has forgotten attempts that ended after the copy was made"
RECEIVED = "jobs were taken there by hand (rainbow receive), which its agent does not know"


def take_recall(sync: SyncTransaction, before: str | None) -> None:
    """Apply an agent's recall and record that its cluster has reported; `before`: the stored epoch."""
    core, tx, fx, request, now = sync.core, sync.tx, sync.fx, sync.request, sync.now
    row = core.history.clusters.get(request.cluster)
    if request.message.recall is None or row is None:
        return
    for known in sorted(request.message.recall.attempts, key=lambda known: (known.ref.job, known.ref.n)):
        sync.run(f"what is known of job {known.ref.job}", partial(_take_attempt, sync, known))
    why = RECEIVED if tx.was_received(request.cluster) else _why_unclear(core, request, before)
    if why:  # it may have begun what it would be offered again
        withdraw_unconfirmed(tx, fx, core.history, request.cluster, now)
    for attempt in lifecycle.unconfirmed_attempts(tx, request.cluster):
        sync.run(f"a wish to cancel job {attempt.job}", partial(_end_cancelled, tx, fx, attempt, now))
    state = ReportState.UNCLEAR if why else ReportState.REPORTED
    tx.update_restore_report(row.cluster_id, state, why)
    tx.resume_leases(row.cluster_id, now + core.settings.lease)
    fx.cluster_reports.append(replace(row, state=state, why=why))


def _note(sync: SyncTransaction, kind: str, ref: AttemptRef, detail: str) -> None:
    """Store a finding for the operator."""
    restore = sync.core.history.restore
    assert restore is not None
    sync.tx.add_finding(
        RestoreFinding(
            generation=restore.number,
            at=sync.now,
            kind=kind,
            job=ref.job,
            n=ref.n,
            cluster=sync.request.cluster,
            detail=detail[:1024],
        )
    )


def _end_cancelled(tx: Tx, fx: Effects, attempt: Attempt, now: float) -> None:
    """End an attempt that was to be cancelled and never began."""
    job = tx.job(attempt.job)
    if job is not None and job.state is JobState.CANCELLING:
        how = lifecycle.AttemptEnd(state=AttemptState.WITHDRAWN, reason=job.reason)
        lifecycle.end_attempt(tx, fx, job, attempt, how, now)


def _why_unclear(core: Core, request: SyncRequest, before: str | None) -> str:
    """Return why the recall does not settle what ran; empty if it does."""
    assert request.message.recall is not None
    if before is not None and journal_of(before) != journal_of(request.epoch):
        return OTHER_JOURNAL
    if before is None and not request.message.mark:
        return NO_JOURNAL
    restore = core.history.restore
    if not request.message.recall.complete and restore is not None:
        recalled = [known.report for known in request.message.recall.attempts]
        ends = [r.ended_at for r in recalled if isinstance(r, Report) and r.ended_at is not None]
        if not ends or min(ends) > core.history.copied_at:
            return FORGOTTEN
    return ""


def _take_attempt(sync: SyncTransaction, known: KnownAttempt) -> None:
    tx, ref = sync.tx, known.ref
    job, attempt = tx.job(ref.job), tx.attempt(ref.job, ref.n)
    if job is None:
        _take_unknown_job(sync, known)
    elif attempt is not None and attempt.token == ref.token:
        if attempt.cluster == sync.request.cluster:
            _update_known(sync, known, job, attempt)
    elif _has_reused_id(sync, job):
        _note_reused_id(sync, known)
    elif attempt is None:
        _take_unknown_attempt(sync, known, job)


def _has_reused_id(sync: SyncTransaction, job: Job) -> bool:
    """Return whether the job was submitted here after the restore, before an agent noticed it.

    Such a job may have the id of a lost job.
    """
    after = sync.core.history.own_after
    if after is None:
        return False
    first = sync.tx.events(0, 1, job=job.id)
    return bool(first) and first[0].seq > after


def _note_reused_id(sync: SyncTransaction, known: KnownAttempt) -> None:
    """Note a lost job whose id another job has; its running attempt is killed as unknown."""
    again = "its id was given to another job before the restore was noticed"
    if known.phase == "ended":
        _note(sync, "lost-job", known.ref, f"{_state(known.report)}; {again}")
    elif known.phase == "confirmed":
        _note(sync, "killed", known.ref, again)


def _update_known(sync: SyncTransaction, known: KnownAttempt, job: Job, attempt: Attempt) -> None:
    """Update an attempt that the database has to what the agent knows."""
    tx, fx, request, now = sync.tx, sync.fx, sync.request, sync.now
    if attempt.state.live and known.phase == "never":
        how = lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason="its agent never took it")
        lifecycle.end_attempt(tx, fx, job, attempt, how, now)
    elif known.phase in ("confirmed", "ended") and attempt.state in BEFORE_CONFIRM:
        changes = {"holder": request.epoch, "guarded": request.guards}
        lifecycle.progress(tx, fx, job, attempt, AttemptState.ACCEPTED, now, **changes)
        _note(sync, "started", known.ref, f"{known.phase} by its agent")
    if known.phase == "ended":
        if attempt.state.live:
            _note(sync, "ended", known.ref, _state(known.report))
        if known.report is not None:
            reports.take(sync, known.report)
    if known.phase in ("confirmed", "ended") and not (attempt.state.live or job.state.terminal):
        _note(sync, "too-late", known.ref, f"attempt {attempt.n} is {attempt.state.value}; {known.phase} there")


def _state(report: Report | UnknownReport | None) -> str:
    return report.state.value if isinstance(report, Report) else "unknown"


def _take_unknown_attempt(sync: SyncTransaction, known: KnownAttempt, job: Job) -> None:
    """Adopt an attempt that was made after the copy, if it was confirmed."""
    tx, ref = sync.tx, known.ref
    if known.phase not in ("confirmed", "ended") or not sync.core.history.is_old(job.id):
        return
    newer = [attempt for attempt in tx.attempts(job.id) if attempt.n > ref.n]
    started = [a for a in newer if a.state not in BEFORE_CONFIRM and a.state not in NEVER_RAN]
    if job.state.terminal or started:
        _note(sync, "too-late", ref, f"job {job.id} is {job.state.value}; {known.phase} there")
        return
    _adopt(sync, known, job)
    _note(sync, "adopted", ref, known.phase if known.report is None else _state(known.report))
    if known.phase == "ended" and known.report is not None:
        reports.take(sync, known.report)


def _adopt(sync: SyncTransaction, known: KnownAttempt, job: Job) -> None:
    """Make the recalled attempt the live attempt of its job."""
    tx, ref = sync.tx, known.ref
    attempts = tx.attempts(job.id)
    unknown = ref.n - 1 - sum(attempt.n < ref.n for attempt in attempts)  # attempts that are unknown here
    for attempt in attempts:
        if attempt.state.live:
            awaited = sync.core.history.awaits(attempt.cluster) and attempt.cluster != sync.request.cluster
            unknown += lifecycle.supersede(tx, sync.fx, attempt, sync.now, may_have_started=awaited)
    lifecycle.adopt(
        tx,
        sync.fx,
        job,
        sync.now,
        n=ref.n,
        cluster=sync.request.cluster,
        token=ref.token,
        holder=sync.request.epoch,
        guarded=sync.request.guards,
        unknown_before=unknown,
    )


def _take_unknown_job(sync: SyncTransaction, known: KnownAttempt) -> None:
    """Restore a job that was submitted after the copy, from its agent's record."""
    ref = known.ref
    if known.phase == "ended":
        _note(sync, "lost-job", ref, f"{_state(known.report)}; the database knows nothing else of it")
        return
    if known.phase != "confirmed":
        return
    draft = _recovered_job(sync.core, known, sync.now) if sync.core.history.is_old(ref.job) else None
    if draft is None:
        _note(sync, "killed", ref, "its agent does not know what it is")
        return
    sync.tx.add_lost_job(ref.job, draft)
    _note(sync, "found-job", ref, f"submitted by {draft.owner} after the copy was made")
    job = sync.tx.job(ref.job)
    assert job is not None
    _adopt(sync, known, job)


def _recovered_job(core: Core, known: KnownAttempt, now: float) -> NewJob | None:
    """Return the job from its agent's record; it may run nowhere else (see `Terms.from_agent`)."""
    offer = known.offer
    if offer is None or not offer.spec or not 0 < len(offer.owner) <= MAX_NAME_CHARS or known.ref.job < 1:
        return None
    try:
        core.request_of(offer.spec)
        terms_json = json.loads(offer.terms)
        labels = {str(key): str(value) for key, value in terms_json.get("labels", {}).items()}
        terms = Terms(labels=labels, deadline=terms_json.get("deadline"), from_agent=True)
    except (RainbowError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    name = offer.name[:MAX_NAME_CHARS]
    return NewJob(owner=offer.owner, name=name, spec=offer.spec, terms=terms, submitted_at=now)
