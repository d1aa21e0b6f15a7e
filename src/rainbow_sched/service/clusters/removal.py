"""Remove a cluster: at once when nothing runs there, else after its jobs ended, or by force."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.model.attempt import BEFORE_CONFIRM, Attempt, AttemptState, Failure
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import Conflict, Invalid
from rainbow_sched.service import lifecycle
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import revoke_cluster
from rainbow_sched.service.clusters.registration import require_cluster
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.store.base import ReportState, Tx

REMOVED = "its cluster was removed"
LEAVES = "it is being removed"
JOB_CHOICES = ("", "wait", "cancel", "lose")


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """What happened to the jobs of a cluster; the cluster stays while some run."""

    moved: int  # jobs that go to another cluster
    running: int = 0


async def delete(core: Core, name: str, jobs: str = "") -> RemovalResult:
    """Remove a cluster and move its pending jobs elsewhere; `jobs` says what to do with running ones.

    Empty: raise Conflict if any run. `wait`: give it no new jobs, remove it when they have ended.
    `cancel`: cancel them, then remove it. `lose`: remove it now, its jobs are lost. A cluster's own
    secret cannot end others' jobs.
    """
    if jobs not in JOB_CHOICES:
        raise Invalid(f"running jobs of a deleted cluster can wait, cancel or lose, not {jobs!r}")
    by = acting()

    def work(tx: Tx, fx: Effects) -> RemovalResult:
        attempts, now = tx.live_attempts(name), core.clock.now()
        running = [attempt for attempt in attempts if attempt.state not in BEFORE_CONFIRM]
        if running and (not jobs or (jobs != "wait" and not by.principal.admin)):
            raise Conflict(_running_message(name, len(running), admin=by.principal.admin))
        offered = [attempt for attempt in attempts if attempt.state in BEFORE_CONFIRM]
        if running and jobs != "lose":
            id = require_cluster(tx, name).id
            fx.changed(tx.update_cluster(id, standing=Standing.LEAVING, drain_reason=LEAVES))
            _withdraw(tx, fx, offered, now)
            for attempt in running if jobs == "cancel" else ():
                lifecycle.cancel(
                    tx, fx, lifecycle.require_job(tx, attempt.job), f"cluster {name} is being removed", now
                )
            by.note(tx, "cluster.leave", name, now, f"{jobs} for {len(running)} jobs")
            return RemovalResult(len(offered), len(running))
        _withdraw(tx, fx, offered, now)
        for attempt in running:
            lost = f"cluster {name} was removed while it ran"
            how = lifecycle.AttemptEnd(state=AttemptState.LOST, failure=Failure.LOST, reason=lost)
            lifecycle.end_attempt(tx, fx, lifecycle.require_job(tx, attempt.job), attempt, how, now)
        _remove(tx, fx, name, now)
        by.note(tx, "cluster.delete", name, now, f"{len(offered)} jobs moved")
        return RemovalResult(len(offered))

    core.fleet.member(name)
    left = await core.write(work)
    core.credential_resolver.forget()
    await restore.forget_cluster(core, name)
    return left


async def finish(core: Core, name: str) -> bool:
    """Remove a leaving cluster if no job is left there; return True if it is gone."""
    if await core.store.read(lambda tx: sum(tx.count_live(name).values())):
        return False
    by = acting()

    def work(tx: Tx, fx: Effects) -> bool:
        cluster, now = tx.cluster(name), core.clock.now()
        if cluster is None or cluster.standing is not Standing.LEAVING or tx.count_live(name):
            return False
        _remove(tx, fx, name, now)
        by.note(tx, "cluster.delete", name, now, "all its jobs have ended")
        return True

    gone = await core.write(work)
    core.credential_resolver.forget()
    await restore.forget_cluster(core, name)
    return gone


def _running_message(name: str, running: int, *, admin: bool) -> str:
    many = "1 job runs" if running == 1 else f"{running} jobs run"
    if not admin:
        return f"{many} on {name}: drain it and wait until they end, or let an administrator delete it"
    return (
        f"{many} on {name}: delete it with --jobs wait (when they have ended), --jobs cancel (end them first), "
        "or --jobs lose (remove it now; they are lost)"
    )


def _withdraw(tx: Tx, fx: Effects, offered: list[Attempt], now: float) -> None:
    how = lifecycle.AttemptEnd(state=AttemptState.WITHDRAWN, reason=REMOVED)
    for attempt in offered:
        lifecycle.end_attempt(tx, fx, lifecycle.require_job(tx, attempt.job), attempt, how, now)


def _remove(tx: Tx, fx: Effects, name: str, now: float) -> None:
    id = require_cluster(tx, name).id
    for row in tx.restore_reports():
        if row.cluster_id == id and row.state.holds_jobs:
            tx.update_restore_report(id, ReportState.GIVEN_UP)
    revoke_cluster(tx, name, now)
    tx.remove_cluster(id, now)
    fx.removed.append(name)
