"""Moves of stored jobs and attempts; each move is one event, in the same transaction.

Nothing else in `service` gives a stored job another state; `tests/unit/service/test_lifecycle.py` holds that.
Every function takes the open transaction, the job as it was read, and the time. `model/job_state.py` and
`model/attempt.py` define the legal transitions; consequences for the rest of the system (agents to
wake, resources to free) are written into `Effects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from rainbow_sched.model.attempt import BEFORE_CONFIRM, LIVE, Attempt, AttemptState, Failure, Outcome, outcome
from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Conflict, Corrupt, NotFound
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import DecidedJob, Tx, WaitingJob

CANCEL = "cancel"
SUPERSEDED = "a newer attempt was made in the time that the restore has lost"
DEADLINE_PASSED = "its deadline passed"
UNKNOWN_REPORT = "unknown_report"  # key of the event detail
MAX_UNKNOWN_REPORTS_PER_JOB = 20  # stored as events; bounds what an agent can write about one job
MAX_EVENTS_PER_READ = 1_000  # of one job; bounds the time and memory of one read


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    state: AttemptState
    exit_code: int | None = None
    failure: Failure | None = None
    reason: str = ""
    ended_at: float | None = None
    started_at: float | None = None
    nodes: str = ""  # hostlist, if known
    code: str = ""  # typed reason of a return
    certainly_ended: bool = True  # False: it may still run


def _move(
    tx: Tx,
    fx: Effects,
    job: Job,
    event: JobEvent,
    now: float,
    *,
    detail: Mapping[str, object] | None = None,
    **changes: object,
) -> Job:
    """Give a job its next state with an event; its detail is the reason unless another is given."""
    fx.events = True
    detail = {"reason": changes["reason"]} if detail is None else detail
    return tx.update_job(job, event, now, detail=detail, **changes)


def _end(tx: Tx, fx: Effects, job: Job, event: JobEvent, now: float, **changes: Any) -> Job:
    """Move a job to its last state, and settle the jobs that depend on it."""
    ended = _move(tx, fx, job, event, now, **changes)
    settle_dependents(tx, fx, ended, now)
    return ended


def bind(tx: Tx, fx: Effects, job: Job, cluster: str, token: str, record: StoredDecision, now: float) -> Job:
    """Assign a job to the cluster that was chosen; a held one is released first."""
    if job.state is JobState.HELD:
        job = _move(tx, fx, job, JobEvent.RELEASED, now, detail={"reason": "a cluster fits now"})
    attempt = tx.add_attempt(job, cluster, token, now)
    tx.put_decision(job.id, attempt.n, now, record)
    fx.wake.add(cluster)
    fx.left_pending.append(job.id)
    return _move(
        tx,
        fx,
        job,
        JobEvent.BOUND,
        now,
        detail={"cluster": cluster},
        cluster=cluster,
        attempt=attempt.n,
        reason=f"given to {cluster}",
        evaluations=job.evaluations + 1,
        evaluated_at=now,
    )


def place_all(tx: Tx, fx: Effects, decided: Sequence[DecidedJob], now: float) -> None:
    """Assign or hold many queued jobs; raise Conflict if one of them has changed since it was read."""
    tx.apply_decisions(decided, now)
    fx.events = True
    for one in decided:
        job = one.job
        if one.cluster:
            fx.wake.add(one.cluster)
            fx.left_pending.append(job.id)
        else:
            fx.waiting.append((WaitingJob(job.id, job.terms.priority, job.spec, job.terms, job.owner), ""))


def hold(tx: Tx, fx: Effects, job: Job, why: Hold, reason: str, now: float) -> Job:
    """Hold a queued job after an evaluation."""
    evaluations = job.evaluations + 1
    return _move(tx, fx, job, JobEvent.HELD, now, reason=reason, hold=why, evaluations=evaluations, evaluated_at=now)


def release(tx: Tx, fx: Effects, job: Job, reason: str, now: float) -> Job:
    """Release a held job; hold it again if it has to wait for something else."""
    queued = _move(tx, fx, job, JobEvent.RELEASED, now, reason=reason)
    if job.hold is Hold.USER:
        verdict, why = dependency_verdict(tx, job)
        if verdict is False:
            return give_up(tx, fx, queued, JobEvent.FAILED, why, now)
        if verdict is None:
            return _move(tx, fx, queued, JobEvent.HELD, now, reason="waits for other jobs", hold=Hold.DEPENDENCY)
    if job.hold in (Hold.USER, Hold.DEPENDENCY) and (job.terms.start_after or 0.0) > now:
        return _move(tx, fx, queued, JobEvent.HELD, now, reason="waits for its start time", hold=Hold.TIME)
    fx.queued.append(job.id)
    return queued


def give_up(tx: Tx, fx: Effects, job: Job, event: JobEvent, reason: str, now: float) -> Job:
    """End a job that has no live attempt: INFEASIBLE, EXPIRED, CANCELLED or FAILED."""
    fx.left_pending.append(job.id)
    return _end(tx, fx, job, event, now, reason=reason)


def progress(
    tx: Tx, fx: Effects, job: Job, attempt: Attempt, to: AttemptState, now: float, **changes: object
) -> Attempt:
    """Move a live attempt forward and record it in the job, whose state stays."""
    moved = tx.update_attempt(attempt, to, now, suspect=False, **changes)
    started = moved.started_at if to is AttemptState.RUNNING else job.started_at
    updated = _move(
        tx,
        fx,
        job,
        JobEvent.UPDATED,
        now,
        detail={"attempt": to.value, "cluster": attempt.cluster},
        started_at=started,
        reason=f"{to.value} on {attempt.cluster}",
    )
    if job.started_at is None and started is not None:
        settle_dependents(tx, fx, updated, now)
    return moved


def end_attempt(tx: Tx, fx: Effects, job: Job, attempt: Attempt, how: AttemptEnd, now: float) -> Job:
    """Close a live attempt and move the job to the state that follows."""
    changes: dict[str, object] = {"exit_code": how.exit_code, "failure": how.failure, "reason": how.reason}
    known = {"ended_at": how.ended_at, "nodes": how.nodes, "code": how.code}
    changes |= {name: value for name, value in known.items() if value}
    if how.started_at is not None and attempt.started_at is None:
        changes["started_at"] = how.started_at
    tx.update_attempt(attempt, how.state, now, suspect=False, **changes)
    fx.released.append((attempt.cluster, attempt.token))
    if job.state is JobState.CANCELLING and how.state not in (AttemptState.SUCCEEDED, AttemptState.FAILED):
        return _cancelled(tx, fx, job, now)
    if how.state is AttemptState.SUCCEEDED:
        return _finished(tx, fx, job, JobEvent.SUCCEEDED, how, now)
    if how.state is AttemptState.CANCELLED:
        lost = AttemptEnd(state=AttemptState.CANCELLED, reason=how.reason or f"cancelled on {attempt.cluster}")
        return _finished(tx, fx, job, JobEvent.FAILED, lost, now)
    further = None if job.state is JobState.CANCELLING else _further_run(job, how)
    if further is None:
        return _finished(tx, fx, job, JobEvent.FAILED, how, now, counted=_used_attempts(job))
    return _requeue(tx, fx, job, how, now, further)


def end_readable(
    tx: Tx, fx: Effects, attempts: Iterable[Attempt], state: AttemptState, reason: str, now: float
) -> None:
    """Close live attempts for one reason; skip those whose job is damaged."""
    for attempt in attempts:
        job = readable_job(tx, attempt.job)
        if job is not None:
            end_attempt(tx, fx, job, attempt, AttemptEnd(state=state, reason=reason), now)


def lose(tx: Tx, fx: Effects, job: Job, attempt: Attempt, silence: float, now: float) -> Job:
    """Declare an accepted attempt of a silent cluster lost; rerun it only if it cannot be running there."""
    reason = f"{attempt.cluster} was silent for {silence:.0f} s"
    if not attempt.guarded:
        reason += ", and it may still run there; it is ended when the cluster comes back"
    how = AttemptEnd(state=AttemptState.LOST, failure=Failure.LOST, reason=reason, certainly_ended=attempt.guarded)
    return end_attempt(tx, fx, job, attempt, how, now)


def record_late_end(tx: Tx, fx: Effects, job: Job, attempt: Attempt, how: AttemptEnd, now: float) -> Job:
    """Record the end of a lost attempt. A success ends the job, unless a newer attempt was accepted."""
    changes: dict[str, object] = {"exit_code": how.exit_code, "failure": how.failure, "reason": how.reason}
    tx.update_attempt(attempt, how.state, now, ended_at=how.ended_at or now, **changes)
    if job.state.terminal:
        return job
    if how.state is not AttemptState.SUCCEEDED:
        return _move(tx, fx, job, JobEvent.UPDATED, now, detail={"found": attempt.n, "attempt": how.state.value})
    newer = tx.attempt(job.id, job.attempt)
    if newer is not None and newer.state.live:
        if newer.state not in BEFORE_CONFIRM:
            return job
        tx.update_attempt(newer, AttemptState.WITHDRAWN, now, reason="an earlier attempt had succeeded")
        fx.released.append((newer.cluster, newer.token))
    fx.left_pending.append(job.id)
    return _finished(tx, fx, replace(job, attempt=attempt.n, cluster=attempt.cluster), JobEvent.SUCCEEDED, how, now)


def add_unknown_report_event(tx: Tx, fx: Effects, job: Job, attempt: Attempt, text: str, why: str, now: float) -> None:
    """Store a report that this server does not understand as an event, each text once; change nothing else."""
    before = [event for event in tx.events(0, MAX_EVENTS_PER_READ, job=job.id) if UNKNOWN_REPORT in event.detail]
    if len(before) >= MAX_UNKNOWN_REPORTS_PER_JOB:
        return
    if any(event.detail[UNKNOWN_REPORT] == text and event.detail["of"] == attempt.n for event in before):
        return
    detail = {UNKNOWN_REPORT: text, "why": why, "of": attempt.n, "cluster": attempt.cluster}
    _move(tx, fx, job, JobEvent.UPDATED, now, detail=detail)


def _further_run(job: Job, how: AttemptEnd) -> tuple[int, int, str] | None:
    """Return failures and reruns used with a further attempt, and which one it is; None if the owner allows none.

    Retries are for known failures and reruns for unknown outcomes; neither replaces the other.
    """
    terms, failures, reruns = job.terms, job.failures, job.reruns_used
    if terms.from_agent:
        return None
    match outcome(how.state, how.failure):
        case Outcome.NOT_RUN:
            return failures, reruns, ""
        case Outcome.FAILED if failures < terms.retries_after(how.failure):
            return failures + 1, reruns, f"retry {failures + 1} of {terms.retries}"
        case Outcome.UNKNOWN if reruns < terms.reruns and how.certainly_ended:
            return failures, reruns + 1, f"rerun {reruns + 1} of {terms.reruns}"
    return None


def _requeue(tx: Tx, fx: Effects, job: Job, how: AttemptEnd, now: float, further: tuple[int, int, str]) -> Job:
    failures, reruns, counted = further
    fx.queued.append(job.id)
    reason = f"{how.state.value} by {job.cluster}"
    if how.reason:
        reason += f": {how.reason}"
    if counted:
        reason += f"; {counted}"
    detail = {"why": how.state.value, "reason": how.reason, "counted": counted}
    if how.code:
        detail["code"] = how.code
    changes = {"failures": failures, "reruns_used": reruns, "reason": reason, "cluster": ""}
    return _move(tx, fx, job, JobEvent.UNBOUND, now, detail=detail, **changes)


def _used_attempts(job: Job) -> str:
    """Return how many retries and reruns a job has used; empty if its owner allowed none."""
    terms = job.terms
    numbers = ((job.failures, terms.retries, "retries"), (job.reruns_used, terms.reruns, "reruns"))
    return ", ".join(f"{used} of {allowed} {name} used" for used, allowed, name in numbers if allowed)


def _finished(tx: Tx, fx: Effects, job: Job, event: JobEvent, how: AttemptEnd, now: float, *, counted: str = "") -> Job:
    changes: dict[str, object] = {"exit_code": how.exit_code, "reason": how.reason, "ended_at": how.ended_at or now}
    if how.started_at is not None and job.started_at is None:
        changes["started_at"] = how.started_at
    detail = {"exit_code": how.exit_code, "failure": how.failure.value if how.failure else "", "reason": how.reason}
    if counted:
        detail["counted"] = counted
    return _end(tx, fx, job, event, now, detail=detail, **changes)


def _cancelled(tx: Tx, fx: Effects, job: Job, now: float) -> Job:
    """End a job whose attempt was stopped: CANCELLED, or EXPIRED if its deadline stopped it."""
    expired = job.terms.deadline is not None and now >= job.terms.deadline and job.reason == DEADLINE_PASSED
    event = JobEvent.EXPIRED if expired else JobEvent.CANCELLED
    return _end(tx, fx, job, event, now, reason=job.reason)


def cancel(tx: Tx, fx: Effects, job: Job, reason: str, now: float, *, expired: bool = False) -> Job:
    """Cancel a job as soon as that is safe; a job that has finished stays finished."""
    if job.state.terminal or job.state is JobState.CANCELLING:
        return job
    if job.state is not JobState.BOUND:
        return give_up(tx, fx, job, JobEvent.EXPIRED if expired else JobEvent.CANCELLED, reason, now)
    attempt = live_attempt(tx, job)
    cancelling = _move(tx, fx, job, JobEvent.CANCEL_ASKED, now, reason=reason)
    if attempt.state in BEFORE_CONFIRM and not _may_have_begun(tx, attempt):
        return end_attempt(tx, fx, cancelling, attempt, AttemptEnd(state=AttemptState.WITHDRAWN, reason=reason), now)
    tx.add_command(attempt, CANCEL, now)
    fx.wake.add(attempt.cluster)
    return cancelling


def _may_have_begun(tx: Tx, attempt: Attempt) -> bool:
    """Return whether the attempt may have been confirmed in the history that a restore lost."""
    if attempt.job > tx.old_jobs():
        return False
    return any(row.cluster == attempt.cluster and row.state.holds_jobs for row in tx.restore_reports())


def supersede(tx: Tx, fx: Effects, attempt: Attempt, now: float, *, may_have_started: bool) -> bool:
    """Close a live attempt because a newer one was made; return whether it may have run.

    `may_have_started`: its cluster may have begun it, even if it was not confirmed.
    """
    fx.released.append((attempt.cluster, attempt.token))
    if attempt.state in BEFORE_CONFIRM:
        if not may_have_started:
            tx.update_attempt(attempt, AttemptState.WITHDRAWN, now, reason=SUPERSEDED)
            return False
        attempt = tx.update_attempt(attempt, AttemptState.ACCEPTED, now)
    tx.update_attempt(attempt, AttemptState.LOST, now, suspect=False, failure=Failure.LOST, reason=SUPERSEDED)
    return True


def adopt(
    tx: Tx,
    fx: Effects,
    job: Job,
    now: float,
    *,
    n: int,
    cluster: str,
    token: str,
    holder: str,
    guarded: bool,
    unknown_before: int,
) -> Job:
    """Make an accepted attempt, which a restore lost and its agent still has, the live attempt of its job.

    Earlier ones are closed already. `holder`: epoch of the agent. `unknown_before`: number of earlier attempts of which
    nothing is known; each may have used a retry or a rerun.
    """
    cancelling = job.state is JobState.CANCELLING
    if job.state is JobState.BOUND:
        job = _move(tx, fx, job, JobEvent.UNBOUND, now, detail={"why": "restored", "reason": SUPERSEDED})
    elif job.state is JobState.HELD:
        job = _move(tx, fx, job, JobEvent.RELEASED, now, detail={"reason": "it was given out before the restore"})
    attempt = tx.add_attempt(job, cluster, token, now, n=n)
    tx.update_attempt(attempt, AttemptState.ACCEPTED, now, holder=holder, guarded=guarded)
    if cancelling:
        tx.add_command(attempt, CANCEL, now)
    fx.placed.append((cluster, token, job.spec, job.owner))
    fx.left_pending.append(job.id)
    return _move(
        tx,
        fx,
        job,
        JobEvent.UPDATED if cancelling else JobEvent.BOUND,
        now,
        detail={"cluster": cluster, "adopted": n},
        cluster=cluster,
        attempt=n,
        reason=job.reason if cancelling else f"found on {cluster} after the restore",
        failures=min(job.terms.retries, job.failures + unknown_before),
        reruns_used=min(job.terms.reruns, job.reruns_used + unknown_before),
    )


def hand_off(tx: Tx, fx: Effects, job: Job, attempt: Attempt, now: float) -> Job:
    """End a job that a receiver took over for good; Rainbow no longer follows it."""
    tx.update_attempt(attempt, AttemptState.HANDED_OFF, now)
    fx.released.append((attempt.cluster, attempt.token))
    reason = f"handed over to {attempt.cluster}; its end is not known to Rainbow"
    detail = {"cluster": attempt.cluster}
    return _end(tx, fx, job, JobEvent.HANDED_OFF, now, detail=detail, reason=reason)


def live_attempt(tx: Tx, job: Job) -> Attempt:
    """Return the live attempt of a bound job; raise Conflict if it has none."""
    attempt = tx.attempt(job.id, job.attempt)
    if attempt is None or not attempt.state.live:
        raise Conflict(f"job {job.id} has no live attempt")
    return attempt


def unconfirmed_attempts(tx: Tx, cluster: str, limit: int | None = None) -> list[Attempt]:
    """Return the attempts of a cluster that no agent has been confirmed to hold; `limit`: of each state."""
    return [attempt for state in BEFORE_CONFIRM for attempt in tx.attempts_in(cluster, state, limit)]


def accepted_attempts(tx: Tx, cluster: str) -> list[Attempt]:
    """Return the attempts that the agent of a cluster should hold."""
    return [attempt for state in LIVE[2:] for attempt in tx.attempts_in(cluster, state)]


def require_job(tx: Tx, id: int) -> Job:
    """Return a job; raise NotFound if it does not exist."""
    job = tx.job(id)
    if job is None:
        raise NotFound(f"there is no job {id}")
    return job


def readable_job(tx: Tx, id: int) -> Job | None:
    """Return a job, or None if it does not exist or its row is damaged, so that bulk work goes on."""
    try:
        return tx.job(id)
    except Corrupt:
        return None


def settle_dependents(tx: Tx, fx: Effects, job: Job, now: float) -> None:
    """Release the jobs that wait for this one; end those whose condition can no longer be met.

    Jobs that end by this are settled iteratively, so long chains do not recurse. What exceeds the limit
    of one transaction is stored for the next: see `settle_stored`.
    """
    fx.to_settle.append((job.id, 0))
    if not fx.settling:
        settle_ended(tx, fx, now)


def settle_ended(tx: Tx, fx: Effects, now: float) -> None:
    """Settle the dependents of started and ended jobs, up to the limit of this transaction."""
    fx.settling = True
    while fx.to_settle and fx.dependents_left > 0:
        id, after = fx.to_settle.popleft()
        waiters = tx.waiters(id, after, fx.dependents_left)
        if len(waiters) == fx.dependents_left:
            fx.to_settle.appendleft((id, waiters[-1]))
        fx.dependents_left -= len(waiters)
        for number in waiters:
            waiter = readable_job(tx, number)
            if waiter is not None and waiter.state is JobState.HELD and waiter.hold is Hold.DEPENDENCY:
                with suppress(Corrupt):  # another dependency is damaged: keep waiting
                    settle_dependent(tx, fx, waiter, now)
    fx.settling = False


@contextmanager
def settle_at_end(tx: Tx, fx: Effects, now: float) -> Iterator[None]:
    """Settle dependents only after the block, so that jobs which were read together end together.

    A job in the block may depend on another one of it; it then ends by its own cause.
    """
    fx.settling = True
    yield
    settle_ended(tx, fx, now)


def store_unsettled(tx: Tx, fx: Effects) -> None:
    """Store the dependents that this transaction left over, so that no crash loses them."""
    if fx.to_settle:
        tx.add_unsettled(set(fx.to_settle))
        fx.unsettled = True


def settle_stored(tx: Tx, fx: Effects, now: float) -> None:
    """Settle dependents that earlier transactions stored."""
    fx.to_settle.extend(tx.take_unsettled())
    if fx.to_settle:
        settle_ended(tx, fx, now)


def settle_dependent(tx: Tx, fx: Effects, waiter: Job, now: float) -> Job:
    """Release or end one dependent job if its dependencies are decided."""
    verdict, reason = dependency_verdict(tx, waiter)
    if verdict is False:
        return give_up(tx, fx, waiter, JobEvent.FAILED, reason, now)
    if verdict is True:
        return release(tx, fx, waiter, "its dependencies are met", now)
    return waiter


def dependency_verdict(tx: Tx, job: Job) -> tuple[bool | None, str]:
    """Return True if all dependencies are met, False with a reason if one cannot be met, None if undecided."""
    pending = False
    for dependency in tx.dependencies(job.id):
        on = tx.job(dependency.job)
        if on is None:
            return False, f"job {dependency.job}, which it waits for, does not exist"
        good = on.state in (JobState.SUCCEEDED, JobState.HANDED_OFF)
        if dependency.kind == "after":
            pending = pending or not (on.state.terminal or on.started_at is not None)
        elif not on.state.terminal:
            pending = True
        elif (dependency.kind == "afterok" and not good) or (dependency.kind == "afternotok" and good):
            return False, f"{dependency.kind}:{on.id} cannot be met: job {on.id} is {on.state.value}"
    return (None, "") if pending else (True, "")
