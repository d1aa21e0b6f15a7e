"""Queued jobs that need nobody's bid, decided one after another and stored in one write.

A batch of thousands is decided this way right after it was stored. Whatever is special about a
job (bids are wanted, it came back from a cluster, its policy fails, it is refused) is left to
be decided alone.
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

TOGETHER = 256
BETWEEN = 8  # decisions before calls have a turn
PAUSE = 0.01  # seconds; a batch that is being stored comes before the choices of the one before it


async def decide_together(core: Core, ids: Sequence[int]) -> list[int]:
    """Decide these jobs; those that must be decided alone are given back. Raise Unavailable if the store is away."""
    try:
        found = await core.store.read(lambda tx: tx.jobs(ids))
    except Corrupt:
        return list(ids)
    waiting: dict[str, DecidedJob] = {}  # by shape: what does not fit once fits nowhere until something is released
    settled: list[DecidedJob] = []
    alone: list[int] = []
    try:
        for number, job in enumerate(sorted(found, key=lambda job: (-job.terms.priority, job.id)), 1):
            one = _settle(core, job, waiting)
            if one is None:
                alone.append(job.id)
            else:
                settled.append(one)
            if number % BETWEEN == 0:
                await asyncio.sleep(PAUSE if core.jobs_arriving else 0)
    except BaseException:  # whatever it is, nothing of this was stored
        _give_back(core, settled)
        raise
    return alone + await _store(core, settled)


def _settle(core: Core, job: Job, waiting: dict[str, DecidedJob]) -> DecidedJob | None:
    """One job, or None if it is not to be decided here."""
    if job.state is not JobState.QUEUED or job.attempt:
        return None
    shape = shape_of(core.fleet, job.owner, job.spec, job.terms) if waiting else ""
    if shape in waiting:
        like = waiting[shape]
        return DecidedJob(job=job, decision=like.decision, reason=like.reason, hold=like.hold)
    request = core.request_of(job.spec)
    query = PlacementQuery(request=request, spec=job.spec, terms=job.terms, owner=job.owner, seed=core.ids.seed())
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
    made = DecidedJob(job=job, decision=record, reason="; ".join(outcome.reasons), hold=Hold.NOTHING_FITS)
    waiting[shape_of(core.fleet, job.owner, job.spec, job.terms)] = made
    return made


async def _store(core: Core, settled: Sequence[DecidedJob]) -> list[int]:
    """Commit them by compare-and-set; if one has moved on meanwhile, all are given back to be decided alone."""

    def work(tx: Tx, fx: Effects) -> None:
        tx.apply_decisions(settled, core.clock.now())
        fx.wake.update(one.cluster for one in settled if one.cluster)
        fx.gone.extend(one.job.id for one in settled if one.cluster)
        fx.events = True

    if not settled:
        return []
    try:
        await core.write(work)
    except Exception as error:  # whatever it is, what was set aside is free again
        _give_back(core, settled)
        if isinstance(error, Unavailable) or not isinstance(error, RainbowError):
            raise
        return [one.job.id for one in settled]
    for one in settled:
        if one.hold is not None:
            job = one.job
            core.pending.put(job.id, job.terms.priority, shape_of(core.fleet, job.owner, job.spec, job.terms))
    return []


def _give_back(core: Core, settled: Sequence[DecidedJob]) -> None:
    for one in settled:
        if one.cluster:
            core.fleet.release(one.cluster, one.token)
