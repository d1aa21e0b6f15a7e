"""After a restore: collect the agents' recalls, and hold old jobs until no cluster can have run them unnoticed.

A restored database is an older copy. A job that it has as queued may have run since, or be running.
So every agent sends a full recall (R14 in docs/protocol.md); jobs from before the restore are held
until each cluster that may have received them has reported, or, if one never will, until their
owner or an administrator releases them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Conflict, NotFound, Unavailable
from rainbow_sched.model.generation import Cause, Generation, HistoryMark, verify_mark
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.generations import GenerationHistory, read
from rainbow_sched.store.base import ReportState, RestoreFinding, RestoreReport, Tx, WaitingJob

log = logging.getLogger(__name__)
JOBS_PER_WRITE = 500  # bounds the time of one transaction
ALLOWED_KEY = "may_run_since"  # key of the event detail when a held job was allowed to run
MAX_EVENTS_READ = 1_000  # of one job; bounds the time and memory of one read
DEFAULT_FINDINGS = 100  # a page of output
MAX_FINDINGS = 10_000  # bounds the size of one answer
WITHOUT_REPORT = "its cluster will not report"
AGENT_TOO_OLD = "its agent is too old to say what it ran; upgrade it"


async def reload(core: Core) -> None:
    core.history = await core.store.read(read)


async def recall_needed(core: Core, cluster: str, mark: str) -> bool:
    """Return whether the agent must send a recall before anything else of it is stored."""
    lost = await _detects_restore(core, cluster, mark)
    row = core.history.clusters.get(cluster)
    return lost or (row is not None and row.state is ReportState.AWAITED)


async def _detects_restore(core: Core, cluster: str, text: str) -> bool:
    """Return whether an agent's mark is from a lost history; the first such mark begins a restore."""
    mark = verify_mark(text, core.history.key) if text else None
    if mark is None or (mark.generation, mark.id) == (core.history.now.number, core.history.now.id):
        return False
    if not await core.store.read(lambda tx: tx.has_lost(mark)):
        return False
    await _begin_restore(core, cluster, mark)
    return True


async def _begin_restore(core: Core, cluster: str, mark: HistoryMark) -> None:
    now, id = core.clock.now(), core.ids.fence()

    def work(tx: Tx) -> Generation | None:
        """Agents come together after a start: the first one begins it, and the others find it begun."""
        restores = [one for one in tx.generations() if one.cause.restores]
        newest = restores[-1].number if restores else 0
        passed_over = mark.generation < newest and mark.event <= tx.last_seq()
        return None if passed_over else tx.begin_restore(id, now, [mark], Cause.NOTICED)

    restore = await core.commit(work)
    if restore is None:
        return
    await reload(core)
    log.error(
        "this database is an older copy of itself: the agent of %s has seen event %d of generation %d. "
        "This is now generation %d; jobs up to %d wait until every cluster has reported: see `rainbow restored`",
        *(cluster, mark.event, mark.generation, restore.number, restore.old_jobs),
    )
    await hold_old_pending(core)


async def reject_without_recall(core: Core, cluster: str) -> None:
    """Raise Unavailable for an agent that is too old to send a recall."""
    row = core.history.clusters[cluster]
    if row.state is ReportState.AWAITED:
        await core.commit(lambda tx: tx.update_restore_report(row.cluster_id, ReportState.AWAITED, AGENT_TOO_OLD))
    raise Unavailable(
        f"the database was restored, and this agent is too old to say what it ran since the copy was made: upgrade it, "
        f"or let an administrator go on without its report (rainbow restored --without {cluster})"
    )


async def hold_old_jobs(core: Core, ids: Sequence[int]) -> list[int]:
    """Hold those queued jobs that may have run unnoticed; return the others."""
    old = [id for id in ids if core.history.is_old(id)] if core.history.clusters else []
    if not old:
        return list(ids)

    def work(tx: Tx, fx: Effects) -> set[int]:
        held = set()
        for id in old:
            job = lifecycle.readable_job(tx, id)
            if job is None or job.state is not JobState.QUEUED:
                continue
            why, reason = _verdict(tx, core.history, job)
            if why is not None:
                lifecycle.hold(tx, fx, job, why, reason, core.clock.now())
                fx.left_pending.append(id)
                held.add(id)
        return held

    held = await core.write(work)
    return [id for id in ids if id not in held]


def _verdict(tx: Tx, history: GenerationHistory, job: Job) -> tuple[Hold | None, str]:
    """Return what an old job has to wait for, if anything."""
    waiting, gone = history.waiting_for(job.terms), history.given_up(job.terms)
    if not (waiting or gone) or _was_allowed(tx, history, job):
        return None, ""
    if waiting:
        return (
            Hold.RESTORED,
            f"the database was restored; it may have run since on {_list(waiting)}, not reported yet",
        )
    return Hold.MAY_HAVE_RUN, (
        f"it may have run on {_list(gone)}, which will not report; if it may run (again): rainbow release {job.id}"
    )


def _was_allowed(tx: Tx, history: GenerationHistory, job: Job) -> bool:
    """Return whether somebody allowed the job to run since the restore."""
    restore = history.restore
    if restore is None:
        return True
    events = tx.events(restore.after_event, MAX_EVENTS_READ, job=job.id)
    return any(event.detail.get(ALLOWED_KEY) == restore.number for event in events)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def may_run_elsewhere(core: Core, tx: Tx, job_id: int, cluster: str) -> bool:
    """Return whether an old job may be running on another cluster than this one."""
    if not (core.history.clusters and core.history.is_old(job_id)):
        return False
    job = tx.job(job_id)
    return job is not None and bool(core.history.waiting_for(job.terms, besides=cluster))


async def hold_old_pending(core: Core) -> None:
    """Release old pending jobs into the queue, where `hold_old_jobs` holds them."""
    if core.history.clusters:
        reason = "the database was restored"
        await _release_held(core, Hold.NOTHING_FITS, lambda one: core.history.is_old(one.job), reason)


async def _release_held(core: Core, hold: Hold, which: Callable[[WaitingJob], bool], reason: str) -> None:
    """Release those jobs that are held for one reason which satisfy the condition."""
    async for page in core.held_jobs(hold, JOBS_PER_WRITE):
        chosen = [one.job for one in page if which(one)]

        def work(tx: Tx, fx: Effects, chosen: Sequence[int] = chosen) -> None:
            for id in chosen:
                job = lifecycle.readable_job(tx, id)
                if job is not None and job.state is JobState.HELD and job.hold is hold:
                    lifecycle.release(tx, fx, job, reason, core.clock.now())

        if chosen:
            await core.write(work)
            core.pending.remove(chosen)


def check_reported(core: Core, cluster: str) -> None:
    """Raise Unavailable while it is unknown what a cluster was given before a restore."""
    if core.history.awaits(cluster):
        raise Unavailable(
            f"the database was restored, and {cluster} has not reported what it was given since the copy was made; "
            f"without an agent it cannot: an administrator can go on (rainbow restored --without {cluster})"
        )


async def release_reported(core: Core) -> None:
    """Release the held jobs that no cluster can have run unnoticed any more."""
    if core.history.restore is None or core.history.reported:
        return
    await reload(core)
    history = core.history
    reason = "every cluster that may have run it has reported, or was given up"
    await _release_held(core, Hold.RESTORED, lambda one: not history.waiting_for(one.terms), reason)
    if core.history is history:
        core.history = replace(history, reported=True)


def allow(tx: Tx, fx: Effects, core: Core, job: Job, by: Principal, now: float) -> Job:
    """Let a job run that may have run before the restore, as its owner or an administrator decided."""
    restore = core.history.restore
    detail = {} if restore is None else {ALLOWED_KEY: restore.number}
    allowed = tx.update_job(job, JobEvent.UPDATED, now, detail=detail)
    return lifecycle.release(tx, fx, allowed, f"released by {by.name}, though it may have run", now)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatus:
    """Findings of a restore, and the reports that are missing."""

    restore: Generation
    copied_at: float
    clusters: list[RestoreReport]
    held: int  # jobs that wait for reports
    unclear: int  # jobs that may have run
    counts: Mapping[str, int]
    findings: list[tuple[int, RestoreFinding]]


async def status(core: Core, after: int = 0, limit: int = 0) -> RestoreStatus:
    """Return what is known since the last restore; raise NotFound if there was none."""
    restore, copied_at = core.history.restore, core.history.copied_at
    if restore is None:
        raise NotFound("this database was never restored")

    def work(tx: Tx) -> RestoreStatus:
        return RestoreStatus(
            restore=restore,
            copied_at=copied_at,
            clusters=tx.restore_reports(),
            held=tx.count_held(Hold.RESTORED),
            unclear=tx.count_held(Hold.MAY_HAVE_RUN),
            counts=tx.count_findings(restore.number),
            findings=tx.findings(restore.number, after, min(limit or DEFAULT_FINDINGS, MAX_FINDINGS)),
        )

    return await core.store.read(work)


async def give_up(core: Core, cluster: str) -> None:
    """Stop waiting for a cluster's report; jobs that may have run there are held for their owners."""
    if not core.history.awaits(cluster):
        core.fleet.member(cluster)
        raise Conflict(f"nothing waits for a report of {cluster}")
    actor = acting()

    def work(tx: Tx, fx: Effects) -> None:
        now = core.clock.now()
        tx.update_restore_report(core.history.clusters[cluster].cluster_id, ReportState.GIVEN_UP)
        withdraw_unconfirmed(tx, fx, core.history, cluster, now)
        actor.note(tx, "restore.give_up", cluster, now)

    await core.write(work)
    await reload(core)
    log.warning("an administrator gave up on %s; jobs that may have run there are held", cluster)
    await release_reported(core)


async def forget_cluster(core: Core, name: str) -> None:
    """Stop waiting for the report of a removed cluster."""
    if name in core.history.clusters:
        await reload(core)
        await release_reported(core)


def withdraw_unconfirmed(tx: Tx, fx: Effects, history: GenerationHistory, cluster: str, now: float) -> None:
    """Withdraw what a cluster was offered before the restore; such jobs are held as "may have run"."""
    old = [attempt for attempt in lifecycle.unconfirmed_attempts(tx, cluster) if history.is_old(attempt.job)]
    lifecycle.end_readable(tx, fx, old, AttemptState.WITHDRAWN, WITHOUT_REPORT, now)
