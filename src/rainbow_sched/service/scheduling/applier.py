"""Apply plans: store them in one transaction, then keep what they reserved, or release all of it.

The store may refuse a plan because the world has changed since it was made. The caller then plans again
with the fleet as it is; it never applies the same plan twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rainbow_sched.model.errors import AlreadyExists, Conflict, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.plan import PlannedJob, Reservations
from rainbow_sched.store.base import DecidedJob, Tx, WaitingJob
from rainbow_sched.store.claim import Replaced

log = logging.getLogger(__name__)
MAX_PLANS = 3  # of a job in a row that are refused; then it is decided later
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApplyRefused:
    """Why the store took nothing of a plan: a job moved on, a cluster left or changed its rules, another
    writer was faster, or this server no longer leads."""

    error: RainbowError

    @property
    def is_final(self) -> bool:
        """Return True if this server cannot apply any plan: another one leads."""
        return isinstance(self.error, Unavailable)


async def apply(
    core: Core, reserved: Reservations, work: Callable[[Tx, Effects], T], *, brief: bool = False
) -> T | ApplyRefused:
    """Store a plan by `work`, and keep what it reserved once that is durable.

    Call it inside the block of `reserved`, which releases everything otherwise, and in a task that nobody
    cancels (see `core.uncancelled`).
    """

    def checked(tx: Tx, fx: Effects) -> T:
        tx.check_clusters(reserved.clusters)
        return work(tx, fx)

    try:
        return await core.transact(checked, brief=brief, durable=reserved.keep)
    except (Conflict, NotFound, AlreadyExists, Replaced) as error:
        log.info("a plan was refused: %s", error)
        return ApplyRefused(error)


async def apply_together(
    core: Core, reserved: Reservations, planned: Sequence[tuple[Job, PlannedJob]]
) -> ApplyRefused | None:
    """Assign or hold many queued jobs in a few statements."""
    decided = [
        DecidedJob(
            job=job,
            decision=one.record,
            reason=one.reason,
            cluster=one.cluster,
            token=one.fence,
            hold=None if one.cluster else Hold.NOTHING_FITS,
        )
        for job, one in planned
        if one.record is not None
    ]

    def work(tx: Tx, fx: Effects) -> None:
        lifecycle.place_all(tx, fx, decided, core.clock.now())

    return await apply(core, reserved, work) if decided else None


async def apply_alone(
    core: Core, reserved: Reservations, job: Job, one: PlannedJob, excluded: str = ""
) -> ApplyRefused | None:
    """Assign, hold or refuse one stored job; `excluded`: the clusters that it may not use for a while."""

    def work(tx: Tx, fx: Effects) -> None:
        now = core.clock.now()
        current = lifecycle.require_job(tx, job.id)
        if current.version != job.version:
            raise Conflict(f"job {job.id} has moved on")
        if one.cluster and one.record is not None:
            lifecycle.bind(tx, fx, current, one.cluster, one.fence, one.record, now)
            return
        if one.record is not None:
            tx.put_decision(job.id, 0, now, one.record)
        if one.state is JobState.INFEASIBLE:
            lifecycle.give_up(tx, fx, current, JobEvent.INFEASIBLE, one.reason, now)
            return
        if current.state is JobState.QUEUED:
            lifecycle.hold(tx, fx, current, Hold.NOTHING_FITS, one.reason, now)
        waiting = WaitingJob(job.id, job.terms.priority, job.spec, job.terms, job.owner)
        fx.waiting.append((waiting, excluded))

    return await apply(core, reserved, work)
