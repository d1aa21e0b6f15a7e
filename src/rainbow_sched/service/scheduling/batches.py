"""Decide batches of queued jobs that need no bids, and store them in one write.

Jobs that need more (bids, a returned attempt, a failing policy, a refusal) are returned, to be
decided individually.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rainbow_sched.model.decision import Chosen, StoredDecision, Wait
from rainbow_sched.model.errors import Corrupt, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job, JobState
from rainbow_sched.selection.decide import decide, wants_bids
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.pending import shape_of
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question
from rainbow_sched.store.base import DecidedJob, Tx

MAX_JOBS_PER_WRITE = 256
DECISIONS_PER_YIELD = 8  # then other tasks run
PAUSE_SECONDS = 0.01  # a batch being stored has priority over decisions


async def decide_batch(core: Core, ids: Sequence[int]) -> list[int]:
    """Decide these jobs; return those to decide individually. Raise Unavailable if the store is away."""
    try:
        found = await core.store.read(lambda tx: tx.jobs(ids))
    except Corrupt:
        return list(ids)
    waiting: dict[str, DecidedJob] = {}  # by shape: equal jobs do not fit either
    settlements: list[DecidedJob] = []
    individually: list[int] = []
    try:
        for number, job in enumerate(sorted(found, key=lambda job: (-job.terms.priority, job.id)), 1):
            one = _settle(core, job, waiting)
            if one is None:
                individually.append(job.id)
            else:
                settlements.append(one)
            if number % DECISIONS_PER_YIELD == 0:
                await asyncio.sleep(PAUSE_SECONDS if core.jobs_arriving else 0)
    except BaseException:  # nothing was stored
        _release(core, settlements)
        raise
    return individually + await _store(core, settlements)


def _settle(core: Core, job: Job, waiting: dict[str, DecidedJob]) -> DecidedJob | None:
    """Decide one job; return None if it must be decided individually."""
    if job.state is not JobState.QUEUED or job.attempt:
        return None
    shape = shape_of(core.fleet, job.owner, job.spec, job.terms) if waiting else ""
    if shape in waiting:
        equal = waiting[shape]
        return DecidedJob(job=job, decision=equal.decision, reason=equal.reason, hold=equal.hold)
    request = core.request_of(job.spec)
    query = PlacementQuery(request=request, terms=job.terms, owner=job.owner, seed=core.ids.seed())
    try:
        question = build_question(core, query)
        if wants_bids(question, core.policies):
            return None
        decision = decide(question, core.policies)
        record, outcome = StoredDecision.of(decision), decision.outcome
    except RainbowError:
        return None
    if isinstance(outcome, Chosen):
        token = core.ids.fence()
        core.fleet.place(outcome.cluster, token, request, job.owner)
        reason = f"given to {outcome.cluster}"
        return DecidedJob(job=job, decision=record, reason=reason, cluster=outcome.cluster, token=token)
    if not isinstance(outcome, Wait):
        return None
    wait = DecidedJob(job=job, decision=record, reason="; ".join(outcome.reasons), hold=Hold.NOTHING_FITS)
    waiting[shape_of(core.fleet, job.owner, job.spec, job.terms)] = wait
    return wait


async def _store(core: Core, settlements: Sequence[DecidedJob]) -> list[int]:
    """Commit by compare-and-set; if any job has changed meanwhile, return all to be decided individually."""

    def work(tx: Tx, fx: Effects) -> None:
        tx.apply_decisions(settlements, core.clock.now())
        fx.wake.update(one.cluster for one in settlements if one.cluster)
        fx.left_pending.extend(one.job.id for one in settlements if one.cluster)
        fx.events = True

    if not settlements:
        return []
    try:
        await core.write(work)
    except Exception as error:  # free the reservations
        _release(core, settlements)
        if isinstance(error, Unavailable) or not isinstance(error, RainbowError):
            raise
        return [one.job.id for one in settlements]
    for one in settlements:
        if one.hold is not None:
            job = one.job
            core.pending.add(job.id, job.terms.priority, shape_of(core.fleet, job.owner, job.spec, job.terms))
    return []


def _release(core: Core, settlements: Sequence[DecidedJob]) -> None:
    for one in settlements:
        if one.cluster:
            core.fleet.release(one.cluster, one.token)
