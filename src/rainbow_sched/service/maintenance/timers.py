"""What happens by itself: leases lapse, times come, deadlines pass, silent clusters become unreachable, old jobs go."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rainbow_sched.model.attempt import BEFORE_CONFIRM, LIVE, Attempt, AttemptState
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.model.job import Hold, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.clusters import removal
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance import restore
from rainbow_sched.service.maintenance.retention import Retention
from rainbow_sched.service.scheduling import reconcile
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
EVERY = 1.0
STIR_EVERY = 60.0
AT_ONCE = 500
SILENT = "its agent is silent"


@dataclass(slots=True)
class Timers:
    """One pass a second; each is a few small steps, and an error in one keeps neither the others nor the next pass."""

    core: Core
    retention: Retention
    _stirred_at: float = 0.0
    _patience: dict[int, float] = field(default_factory=dict)  # of silent clusters: when a run there is lost next
    _cut_off: set[int] = field(default_factory=set)  # ids of drained clusters whose silence was dealt with

    async def run(self) -> None:
        """Pass after pass."""
        while True:
            await asyncio.sleep(EVERY)
            for step in self._steps():
                try:
                    await step(self.core.clock.now())
                except Unavailable as error:
                    log.warning("timers: %s", error)
                    break  # the others would hear the same
                except RainbowError as error:
                    log.warning("timers: %s", error)
                except Exception:  # a fault of ours in one step; without the next pass, no lease would ever lapse
                    log.exception("timers: a step failed")

    async def tick(self) -> None:
        """Everything that is due now."""
        for step in self._steps():
            await step(self.core.clock.now())

    def _steps(self) -> tuple[Callable[[float], Awaitable[object]], ...]:
        return (
            self._sleep,
            self._stir,
            self._doubts,
            self._lapse,
            self._due,
            self._waiters,
            self._restored,
            self._silent,
            self._lost,
            self._leaving,
            self.retention.step,
        )

    async def _sleep(self, now: float) -> None:
        """While the machine slept, we were down: the clock is set, and that counts against nobody."""
        seconds = self.core.clock.seconds_slept()
        if seconds:
            self.core.started_at = self.core.clock.now()
            self.core.presence.slept(seconds, self.core.started_at)
            log.warning("the machine slept for %.0f s; leases and silences are counted from now on", seconds)

    async def _stir(self, now: float) -> None:
        """Jobs that could not be decided, or that nothing fitted, are tried again after a while."""
        self.core.pending.requeue_deferred(now)
        if now - self._stirred_at >= STIR_EVERY:
            self._stirred_at = now
            self.core.pending.retry_all()

    async def _doubts(self, now: float) -> None:
        await reconcile.reconcile_after_unknown_commit(self.core)

    async def _waiters(self, now: float) -> None:
        await self.core.settle_remaining()

    async def _leaving(self, now: float) -> None:
        for name in self.core.fleet.names():
            member = self.core.fleet.get(name)
            if member is not None and member.cluster.standing is Standing.LEAVING:
                await removal.finish(self.core, name)

    async def _lapse(self, now: float) -> None:
        """Leases that nobody accepted in time: the job is decided again."""
        if now - self.core.started_at < self.core.settings.lease:
            return  # our own downtime counts against nobody
        if not await self.core.store.read(lambda tx: tx.lapsed(now, 1)):
            return

        def work(tx: Tx, fx: Effects) -> None:
            for attempt in tx.lapsed(now, AT_ONCE):
                job = lifecycle.readable_job(tx, attempt.job)
                if job is not None:  # a damaged one ends when it is leased again
                    how = lifecycle.AttemptEnd(state=AttemptState.LAPSED, reason="it was not accepted in time")
                    lifecycle.end_attempt(tx, fx, job, attempt, how, now)

        await self.core.write(work)

    async def _due(self, now: float) -> None:
        if not await self.core.store.read(lambda tx: tx.due_jobs(now, 1)):
            return

        def work(tx: Tx, fx: Effects) -> None:
            with lifecycle.settle_at_end(tx, fx, now):
                for job in tx.due_jobs(now, AT_ONCE):
                    deadline = job.terms.deadline
                    if deadline is not None and deadline <= now:
                        lifecycle.cancel(tx, fx, job, lifecycle.DEADLINE_PASSED, now, expired=True)
                    elif job.state is JobState.HELD and job.hold is Hold.TIME:
                        lifecycle.release(tx, fx, job, "its start time has come", now)

        await self.core.write(work)

    async def _restored(self, now: float) -> None:
        await restore.release_reported(self.core)

    async def _silent(self, now: float) -> None:
        """Clusters whose agent fell silent take no new work; what they were offered goes elsewhere, what runs stays."""
        managed = self._managed()
        silent = [c for c in managed if c.standing in _WATCHED and self.core.presence.silent(c.name, now)]
        if len(silent) > 1 and 2 * len(silent) > len(managed) and self._had_no_grace(managed):
            self.core.presence.graced_at = now  # more than half at once: it is our own network; grace for all
            return
        self._cut_off &= {cluster.id for cluster in silent}
        for cluster in silent:
            if cluster.id not in self._cut_off:
                await self._unreachable(cluster, now)
        for cluster in managed:
            if cluster.standing is Standing.UNREACHABLE and not self.core.presence.silent(cluster.name, now):
                await self._back(cluster.name)

    def _had_no_grace(self, managed: list[Cluster]) -> bool:
        """True unless grace was given and most have not come back since: then they are gone, and it was not us."""
        back = sum(self.core.presence.back_since_grace(cluster.name) for cluster in managed)
        return 2 * back > len(managed) or self.core.presence.graced_at < self.core.presence.started_at

    def _managed(self) -> list[Cluster]:
        members = (self.core.fleet.member(name) for name in self.core.fleet.names())
        return [member.cluster for member in members if member.cluster.manager]

    async def _lost(self, now: float) -> None:
        """Runs on clusters that are silent for longer than their jobs' owners would wait."""
        for cluster in self._managed():
            silence = self.core.presence.silence(cluster.name, now)
            if not self.core.presence.silent(cluster.name, now):
                self._patience.pop(cluster.id, None)
            elif silence > self._patience.get(cluster.id, 0.0):
                await self._give_up(cluster, silence)

    async def _give_up(self, cluster: Cluster, silence: float) -> None:
        def due(tx: Tx) -> tuple[list[Attempt], float]:
            patience = {attempt: self._waits(tx, attempt) for attempt in _accepted(tx, cluster.name)}
            left = min((seconds for seconds in patience.values() if seconds >= silence), default=math.inf)
            return [attempt for attempt, seconds in patience.items() if seconds < silence], left

        lost, left = await self.core.store.read(due)
        if not lost:
            self._patience[cluster.id] = left
            return

        def work(tx: Tx, fx: Effects) -> None:
            now = self.core.clock.now()
            if not self.core.presence.silent(cluster.name, now):
                return  # it spoke while this waited for its turn
            for attempt in lost[:AT_ONCE]:
                current = tx.attempt(attempt.job, attempt.n)
                if current is not None and current.state.live:
                    lifecycle.lose(tx, fx, lifecycle.require_job(tx, attempt.job), current, silence, now)

        await self.core.write(work)
        log.warning("cluster %s: silent for %.0f s; %d runs are given up", cluster.name, silence, len(lost))

    def _waits(self, tx: Tx, attempt: Attempt) -> float:
        job = lifecycle.readable_job(tx, attempt.job)
        default = self.core.settings.run_lease if attempt.guarded else math.inf
        return math.inf if job is None else job.terms.patience(default)

    async def _unreachable(self, cluster: Cluster, now: float) -> None:
        drained = cluster.standing in _CLOSED_BY_HAND

        def work(tx: Tx, fx: Effects) -> bool:
            """A part of it at a time, so that other writes get their turn; True when all is done."""
            if not drained:  # what an operator said stays said, and he alone takes it back
                fx.changed(tx.update_cluster(cluster.id, standing=Standing.UNREACHABLE, drain_reason=SILENT))
            for attempt in _accepted(tx, cluster.name):
                if not attempt.suspect:
                    tx.update_attempt(attempt, attempt.state, now, suspect=True)
            offered = self._offered(tx, cluster.name)
            for attempt in offered:
                how = lifecycle.AttemptEnd(state=AttemptState.WITHDRAWN, reason=SILENT)
                job = lifecycle.readable_job(tx, attempt.job)
                if job is not None:
                    lifecycle.end_attempt(tx, fx, job, attempt, how, now)
            return len(offered) < AT_ONCE

        while not await self.core.write(work):
            if not self.core.presence.silent(cluster.name, self.core.clock.now()):
                return
        if drained:
            self._cut_off.add(cluster.id)
        log.warning("cluster %s: its agent is silent; no new work until it speaks again", cluster.name)

    def _offered(self, tx: Tx, cluster: str) -> list[Attempt]:
        """Some of what a cluster has not confirmed; not what it may have begun before a restore."""
        history, found = self.core.history, []
        row = history.clusters.get(cluster)
        heard = row is None or not row.state.holds_jobs
        limit = AT_ONCE if heard else None
        for state in BEFORE_CONFIRM:
            found += [a for a in tx.attempts_in(cluster, state, limit) if heard or not history.is_old(a.job)]
        return found

    async def _back(self, name: str) -> None:
        def work(tx: Tx, fx: Effects) -> None:
            cluster = tx.cluster(name)
            if cluster is not None and cluster.standing is Standing.UNREACHABLE:
                fx.changed(tx.update_cluster(cluster.id, standing=Standing.ACTIVE, drain_reason=""))

        await self.core.write(work)


def _accepted(tx: Tx, cluster: str) -> list[Attempt]:
    return [attempt for state in LIVE[2:] for attempt in tx.attempts_in(cluster, state)]


_CLOSED_BY_HAND = frozenset({Standing.DRAINING, Standing.LEAVING})
_WATCHED = frozenset({Standing.ACTIVE, Standing.DEGRADED}) | _CLOSED_BY_HAND
