"""Periodic work: expire leases, start delayed jobs, enforce deadlines, detect silent agents, delete old jobs."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.model.job import Hold
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.clusters.loader import reconcile_after_unknown_commit
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
PASS_SECONDS = 1.0  # between two passes; bounds how late a deadline or the end of a lease is noticed
RETRY_PENDING_SECONDS = 60.0  # between two decisions about all pending jobs
JOBS_PER_WRITE = 500  # bounds the time of one transaction
SILENT = "its agent is silent"
DAY_SECONDS = 86_400.0  # seconds of a day, the unit of keep_days
JOBS_DELETED_PER_WRITE = 200  # bounds the time of one transaction; the next pass deletes more
COUNT_INTERVAL_SECONDS = 60.0  # between two counts of finished jobs, which read many rows
MIN_AGE_SECONDS = 3_600.0  # of a finished job; its submission may be retried or its output fetched


@dataclass(slots=True)
class Timers:
    """One pass of small steps per second; an error in one step stops neither the others nor the next pass."""

    core: Core
    _retried_at: float = 0.0
    _counted_at: float = 0.0  # when finished jobs were counted last
    _too_many: int = 0  # finished jobs that are to be deleted
    _next_loss_after: dict[int, float] = field(default_factory=dict)  # seconds of silence, by cluster id
    _handled_drained: set[int] = field(default_factory=set)  # ids of silent drained clusters that were handled

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PASS_SECONDS)
            await self.tick()

    async def tick(self) -> None:
        for step in self._steps():
            try:
                await step()
            except Unavailable as error:
                log.warning("timers: %s", error)
                break  # the others would fail, too
            except RainbowError as error:
                log.warning("timers: %s", error)
            except Exception:  # internal error; the next pass must run
                log.exception("timers: a step failed")

    def _steps(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        return (
            self._handle_sleep,
            self._retry_pending,
            partial(reconcile_after_unknown_commit, self.core),
            self._expire_leases,
            self._start_due_jobs,
            self.core.settle_remaining,
            partial(restore.release_reported, self.core),
            self._detect_silent_agents,
            self._end_lost_runs,
            self._remove_leaving,
            self.delete_old,
        )

    async def delete_old(self) -> int:
        """Delete some of the finished jobs that need not be kept; return their number."""
        now, settings = self.core.clock.now(), self.core.settings
        removed = 0
        if settings.keep_days:
            removed = await self._delete_finished(now - settings.keep_days * DAY_SECONDS, JOBS_DELETED_PER_WRITE)
        if settings.keep_jobs and now - self._counted_at >= COUNT_INTERVAL_SECONDS:
            self._counted_at = now
            self._too_many = await self.core.store.read(lambda tx: tx.count_finished()) - settings.keep_jobs
        if settings.keep_jobs and self._too_many > 0:
            most = min(self._too_many, JOBS_DELETED_PER_WRITE)
            gone = await self._delete_finished(now - MIN_AGE_SECONDS, most)
            self._too_many = self._too_many - gone if gone else 0
            removed += gone
        return removed

    async def _delete_finished(self, before: float, limit: int) -> int:
        return await self.core.write(lambda tx, fx: tx.remove_finished(before, limit))

    async def _handle_sleep(self) -> None:
        """Treat time in which the machine was suspended as our own downtime."""
        seconds = self.core.clock.seconds_slept()
        if seconds:
            self.core.started_at = self.core.clock.now()
            self.core.presence.slept(seconds, self.core.started_at)
            log.warning("the machine slept for %.0f s; leases and silences are counted from now on", seconds)

    async def _retry_pending(self) -> None:
        """Retry deferred jobs, and from time to time all pending ones."""
        now = self.core.clock.now()
        self.core.pending.requeue_deferred(now)
        if now - self._retried_at >= RETRY_PENDING_SECONDS:
            self._retried_at = now
            self.core.pending.retry_all()

    async def _remove_leaving(self) -> None:
        for name in self.core.fleet.names():
            member = self.core.fleet.get(name)
            if member is not None and member.cluster.standing is Standing.LEAVING:
                await registration.finish_removal(self.core, name)

    async def _expire_leases(self) -> None:
        """Expire leases that were not accepted in time; their jobs are decided again."""
        now = self.core.clock.now()
        if now - self.core.started_at < self.core.settings.lease:
            return  # our own downtime does not count
        if not await self.core.store.read(lambda tx: tx.lapsed(now, 1)):
            return

        def work(tx: Tx, fx: Effects) -> None:
            lapsed = tx.lapsed(now, JOBS_PER_WRITE)  # a damaged job is ended when it is leased again
            lifecycle.end_readable(tx, fx, lapsed, AttemptState.LAPSED, "it was not accepted in time", now)

        await self.core.write(work)

    async def _start_due_jobs(self) -> None:
        now = self.core.clock.now()
        if not await self.core.store.read(lambda tx: tx.due_jobs(now, 1)):
            return

        def work(tx: Tx, fx: Effects) -> None:
            with lifecycle.settle_at_end(tx, fx, now):
                for job in tx.due_jobs(now, JOBS_PER_WRITE):
                    deadline = job.terms.deadline
                    if deadline is not None and deadline <= now:
                        lifecycle.cancel(tx, fx, job, lifecycle.DEADLINE_PASSED, now, expired=True)
                    elif job.state is JobState.HELD and job.hold is Hold.TIME:
                        lifecycle.release(tx, fx, job, "its start time has come", now)

        await self.core.write(work)

    async def _detect_silent_agents(self) -> None:
        """Mark clusters of silent agents unreachable: offers are withdrawn, running jobs stay."""
        now = self.core.clock.now()
        managed = self._managed()
        silent = [c for c in managed if c.standing in _WATCHED and self.core.presence.silent(c.name, now)]
        if len(silent) > 1 and 2 * len(silent) > len(managed) and self._had_no_grace(managed):
            self.core.presence.grace_given_at = now  # more than half at once: our own network failed
            return
        self._handled_drained &= {cluster.id for cluster in silent}
        for cluster in silent:
            if cluster.id not in self._handled_drained:
                await self._mark_unreachable(cluster, now)
        for cluster in managed:
            if cluster.standing is Standing.UNREACHABLE and not self.core.presence.silent(cluster.name, now):
                await self._mark_reachable(cluster.name)

    def _had_no_grace(self, managed: list[Cluster]) -> bool:
        """Return False if grace was given and most agents have not come back since: they are really gone."""
        back = sum(self.core.presence.back_since_grace(cluster.name) for cluster in managed)
        return 2 * back > len(managed) or self.core.presence.grace_given_at < self.core.presence.started_at

    def _managed(self) -> list[Cluster]:
        members = (self.core.fleet.member(name) for name in self.core.fleet.names())
        return [member.cluster for member in members if member.cluster.manager]

    async def _end_lost_runs(self) -> None:
        """Give up runs on clusters that have been silent for longer than their owners would wait."""
        now = self.core.clock.now()
        for cluster in self._managed():
            silence = self.core.presence.silence(cluster.name, now)
            if not self.core.presence.silent(cluster.name, now):
                self._next_loss_after.pop(cluster.id, None)
            elif silence > self._next_loss_after.get(cluster.id, 0.0):
                await self._end_lost_on(cluster, silence)

    async def _end_lost_on(self, cluster: Cluster, silence: float) -> None:
        def due(tx: Tx) -> tuple[list[Attempt], float]:
            patience = {
                attempt: self._patience_of(tx, attempt) for attempt in lifecycle.accepted_attempts(tx, cluster.name)
            }
            left = min((seconds for seconds in patience.values() if seconds >= silence), default=math.inf)
            return [attempt for attempt, seconds in patience.items() if seconds < silence], left

        lost, left = await self.core.store.read(due)
        if not lost:
            self._next_loss_after[cluster.id] = left
            return

        def work(tx: Tx, fx: Effects) -> None:
            now = self.core.clock.now()
            if not self.core.presence.silent(cluster.name, now):
                return  # it is back
            for attempt in lost[:JOBS_PER_WRITE]:
                current = tx.attempt(attempt.job, attempt.n)
                if current is not None and current.state.live:
                    lifecycle.lose(tx, fx, lifecycle.require_job(tx, attempt.job), current, silence, now)

        await self.core.write(work)
        log.warning("cluster %s: silent for %.0f s; %d runs are given up", cluster.name, silence, len(lost))

    def _patience_of(self, tx: Tx, attempt: Attempt) -> float:
        job = lifecycle.readable_job(tx, attempt.job)
        default = self.core.settings.run_lease if attempt.guarded else math.inf
        return math.inf if job is None else job.terms.patience(default)

    async def _mark_unreachable(self, cluster: Cluster, now: float) -> None:
        drained = cluster.standing in _CLOSED_BY_HAND

        def work(tx: Tx, fx: Effects) -> bool:
            """Do a part, so that other writes can run; return True when all is done."""
            if not drained:  # keep the operator's standing
                fx.changed(tx.update_cluster(cluster.id, standing=Standing.UNREACHABLE, drain_reason=SILENT))
            for attempt in lifecycle.accepted_attempts(tx, cluster.name):
                if not attempt.suspect:
                    tx.update_attempt(attempt, attempt.state, now, suspect=True)
            offered = self._offered(tx, cluster.name)
            lifecycle.end_readable(tx, fx, offered, AttemptState.WITHDRAWN, SILENT, now)
            return len(offered) < JOBS_PER_WRITE

        while not await self.core.write(work):
            if not self.core.presence.silent(cluster.name, self.core.clock.now()):
                return
        if drained:
            self._handled_drained.add(cluster.id)
        log.warning("cluster %s: its agent is silent; no new work until it is back", cluster.name)

    def _offered(self, tx: Tx, cluster: str) -> list[Attempt]:
        """Return some unconfirmed attempts of a cluster, without those that it may have begun before a restore."""
        if not self.core.history.awaits(cluster):
            return lifecycle.unconfirmed_attempts(tx, cluster, JOBS_PER_WRITE)
        is_old = self.core.history.is_old
        return [attempt for attempt in lifecycle.unconfirmed_attempts(tx, cluster) if not is_old(attempt.job)]

    async def _mark_reachable(self, name: str) -> None:
        def work(tx: Tx, fx: Effects) -> None:
            cluster = tx.cluster(name)
            if cluster is not None and cluster.standing is Standing.UNREACHABLE:
                fx.changed(tx.update_cluster(cluster.id, standing=Standing.ACTIVE, drain_reason=""))

        await self.core.write(work)


_CLOSED_BY_HAND = frozenset({Standing.DRAINING, Standing.LEAVING})
_WATCHED = frozenset({Standing.ACTIVE, Standing.DEGRADED}) | _CLOSED_BY_HAND
