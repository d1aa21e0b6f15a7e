"""The scheduling loop: decide stored jobs: long batches, waiting and returned jobs, and refused plans.

One task decides the pending jobs whenever something has changed. Jobs of one shape are skipped
after the first of them did not fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.errors import Corrupt, RainbowError, Unavailable
from rainbow_sched.model.job import Hold, Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decisions import wants_bids
from rainbow_sched.service.agents.offers import RECEIVER
from rainbow_sched.service.agents.reports import BLAMES_CLUSTER
from rainbow_sched.service.core import Core, uncancelled
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.scheduling.plan import (
    MAX_PLANS,
    NONE,
    PlacementQuery,
    PlannedJob,
    Reservations,
    TimeSlice,
    apply_alone,
    apply_together,
    plan,
    plan_decision,
    question_with_bids,
)

log = logging.getLogger(__name__)
EXCLUDE_SECONDS = 60.0  # for which a cluster that returned a job is excluded; doubles each time
MAX_DOUBLINGS = 6  # of EXCLUDE_SECONDS: a cluster is excluded for 64 minutes at most
MAX_CONCURRENT_DECISIONS = 64  # bounds the decisions that wait for bids at the same time
RETRY_SECONDS = 1.0  # before the next pass after the store refused a write
MAX_JOBS_DECIDED_TOGETHER = 256  # bounds the time of one transaction
_APPLIED_TOGETHER = (JobState.BOUND, JobState.HELD)


@dataclass(slots=True)
class SchedulingLoop:
    core: Core

    async def run(self) -> None:
        """Decide pending jobs until cancelled; an error of one job is logged and does not stop the others."""
        while True:
            await self.core.pending.wait_for_change()
            try:
                await self.decide_pending()
            except Unavailable as error:
                log.warning("pending jobs could not be decided: %s", error)
                await self._retry_later()
            except Exception:  # internal error; the loop must go on
                log.exception("pending jobs could not be decided")
                await self._retry_later()

    async def decide_pending(self) -> None:
        await self._decide_queued()
        for shape in self.core.pending.by_urgency():
            await self._decide_group(shape)

    async def _decide_queued(self) -> None:
        limit = asyncio.Semaphore(MAX_CONCURRENT_DECISIONS)

        async def one(id: int) -> None:
            async with limit:
                try:
                    await self._decide_or_defer(id)
                except Unavailable as error:
                    log.warning("job %d could not be decided: %s", id, error)
                    failed.append(id)

        failed: list[int] = []
        while taken := self.core.pending.take_queued(MAX_JOBS_DECIDED_TOGETHER):
            ids = await restore.hold_old_jobs(self.core, taken)
            try:
                individually = await decide_together(self.core, ids)
            except Unavailable as error:
                log.warning("%d jobs could not be decided: %s", len(ids), error)
                failed.extend(ids)
                continue
            except Exception:  # internal error: decide individually to find the job
                log.exception("%d jobs could not be decided together", len(ids))
                individually = ids
            await asyncio.gather(*(one(id) for id in individually))
        if failed:
            await self._retry_later()
            self.core.pending.add_queued(failed)

    async def _decide_or_defer(self, id: int, needs_now: PreparedRequest | None = None) -> None:
        """Decide one job; if that fails, retry later with exponential backoff."""
        try:
            if needs_now is None or self.core.fleet.graphs.match(needs_now).now:
                await self.decide(id)
        except Unavailable:
            raise
        except RainbowError as error:
            delay = self.core.pending.defer(id, self.core.clock.now())
            log.warning("job %d could not be decided; retry in %.0f s: %s", id, delay, error)
        except Exception:  # internal error; it must stop no other job
            delay = self.core.pending.defer(id, self.core.clock.now())
            log.exception("job %d could not be decided; retry in %.0f s", id, delay)

    async def _retry_later(self) -> None:
        """Wait before the next pass, because the store refused a write, and retry all pending jobs."""
        await asyncio.sleep(RETRY_SECONDS)
        self.core.pending.retry_all()

    async def _decide_group(self, shape: str) -> None:
        """Decide the first job of a shape group; go on while jobs leave the group."""
        group = self.core.pending.groups.get(shape)
        while group is not None and group.tried_at != self.core.fleet.version:
            id = self.core.pending.first_job(shape)
            if id is None:
                return
            group.tried_at = self.core.fleet.version
            group.tries += 1
            group.tried_time = self.core.clock.now()
            await self._decide_or_defer(id, group.needs_now)

    async def decide(self, id: int) -> None:
        """Decide one job, also if the caller is cancelled meanwhile; retry later if the store refuses every plan."""
        await uncancelled(self._decide(id))

    async def _decide(self, id: int) -> None:
        core = self.core
        for _ in range(MAX_PLANS):
            job = await core.store.read(lambda tx: tx.job(id))
            if job is None or not _is_undecided(job):
                core.pending.remove([id])
                return
            excluded = await excluded_clusters(core, job)
            with Reservations(core) as reserved:
                planned = await self._plan_alone(reserved, job, _query_of(core, job, excluded))
                refused = await apply_alone(core, reserved, job, planned, ",".join(sorted(excluded)))
            if refused is None:
                return
            if refused.is_final:
                raise refused.error
        delay = core.pending.defer(id, core.clock.now())
        log.warning("job %d: the store refused %d plans; retry in %.0f s", id, MAX_PLANS, delay)

    async def _plan_alone(self, reserved: Reservations, job: Job, query: PlacementQuery) -> PlannedJob:
        """Plan one job, with bids if its policy wants them; refuse it if it can never be decided."""
        core = self.core
        try:
            question = await question_with_bids(core, query)
            planned = plan_decision(core, reserved, query, question)
        except Unavailable:  # the graph backend is away: no verdict on the job
            raise
        except RainbowError as error:
            return PlannedJob(JobState.INFEASIBLE, str(error))
        group = core.pending.group_of(job.id)
        if group is not None:
            group.needs_now = None if wants_bids(question, core.policies) else query.request
        return planned


async def decide_together(core: Core, ids: Sequence[int]) -> list[int]:
    """Decide queued jobs that need no bids, and store them in one write.

    Return those to be decided alone: they need bids, had an attempt before, are refused, or could not be
    decided; all of them, if the store refused the plan.
    """
    try:
        found = await core.store.read(lambda tx: tx.jobs(ids))
    except Corrupt:
        return list(ids)
    found.sort(key=lambda job: (-job.terms.priority, job.id))
    first = [job for job in found if job.state is JobState.QUEUED and not job.attempt]
    alone = [job.id for job in found if job.state is not JobState.QUEUED or job.attempt]
    with Reservations(core) as reserved:
        queries = (_query_of(core, job) for job in first)
        planned = await plan(core, reserved, queries, TimeSlice(core, urgent=False))
        decided = [(job, one) for job, one in zip(first, planned, strict=True) if one.state in _APPLIED_TOGETHER]
        alone += [job.id for job, one in zip(first, planned, strict=True) if one.state not in _APPLIED_TOGETHER]
        refused = await apply_together(core, reserved, decided)
    if refused is None:
        return alone
    if refused.is_final:
        raise refused.error
    return alone + [job.id for job, _ in decided]


def _query_of(core: Core, job: Job, excluded: Mapping[str, str] = NONE) -> PlacementQuery:
    request, seed = core.request_of(job.spec), core.ids.seed()
    return PlacementQuery(request, job.terms, job.owner, seed, excluded)


async def excluded_clusters(core: Core, job: Job) -> Mapping[str, str]:
    """Return the clusters that recently returned this job or failed to run it."""
    if not job.attempt:
        return NONE
    attempts = await core.store.read(lambda tx: tx.attempts(job.id))
    now = core.clock.now()
    times: Counter[str] = Counter()
    excluded = {}
    for a in attempts:
        if not (_refused(a) or a.failure in BLAMES_CLUSTER):
            continue
        counts = EXCLUDE_SECONDS * 2.0 ** min(times[a.cluster], MAX_DOUBLINGS)
        times[a.cluster] += 1
        if now - counts < (a.ended_at or 0) <= now:  # not in the future, if the clock was set back
            excluded[a.cluster] = f"handed it back: {a.reason}" if a.reason else "handed it back"
    return excluded


def _is_undecided(job: Job) -> bool:
    return job.state is JobState.QUEUED or (job.state is JobState.HELD and job.hold is Hold.NOTHING_FITS)


def _refused(attempt: Attempt) -> bool:
    """Return True if the cluster refused the attempt.

    A lease that lapsed at a receiver, or before an agent had seen the offer, is no refusal.
    """
    agent_knew = bool(attempt.holder) and not attempt.holder.startswith(RECEIVER)
    return (agent_knew and attempt.state is AttemptState.LAPSED) or attempt.state is AttemptState.RETURNED
