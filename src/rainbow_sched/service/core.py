"""Shared parts of the service: store, fleet, clock, and the one way to write.

`Core.write` runs a use case in one transaction and applies its effects (changes of the fleet in
memory, wake-ups) only after the commit is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from rainbow_sched.model.errors import Unconfirmed
from rainbow_sched.model.job import Hold
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.policies import PolicyTable, built_in
from rainbow_sched.service.access.principals import CredentialResolver, GroupCache
from rainbow_sched.service.agents.host_binding import nodes_of
from rainbow_sched.service.agents.presence import Presence
from rainbow_sched.service.caches import CriteriaCache, RequestCache
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.lifecycle import settle_stored, store_unsettled
from rainbow_sched.service.maintenance.generations import GenerationHistory
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.scheduling.bids import BidCollector
from rainbow_sched.service.scheduling.pending_jobs import PendingJobs
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.wakeups import EVENTS, OUTPUT, Notifier, cluster_topic
from rainbow_sched.store.base import Store, Tx, WaitingJob

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class Core:
    """The parts of one running service."""

    store: Store
    fleet: Fleet
    clock: Clock
    ids: Ids
    history: GenerationHistory
    settings: Settings
    credential_resolver: CredentialResolver
    presence: Presence
    policies: PolicyTable = field(default_factory=built_in)
    group_cache: GroupCache = field(default_factory=GroupCache)
    notifier: Notifier = field(default_factory=Notifier)
    pending: PendingJobs = field(default_factory=PendingJobs)  # jobs to be decided
    started_at: float = 0.0
    jobs_arriving: int = 0  # jobs of large batches being stored
    unsettled: bool = True  # dependents may remain to be settled; unknown after a start
    commit_outcome_unknown: bool = False  # see clusters/loader.py
    unconfirmed_effects: list[Effects] = field(default_factory=list)  # of writes with unknown outcome
    bidding: BidCollector = field(init=False)
    criteria: CriteriaCache = field(default_factory=CriteriaCache)
    requests: RequestCache = field(default_factory=RequestCache)

    def __post_init__(self) -> None:
        self.bidding = BidCollector(self.notifier, self.clock, self.settings.bid_deadline, self.settings.bidders)

    async def write(self, work: Callable[[Tx, Effects], T]) -> T:
        """Run `work` in one transaction, apply its effects once it is durable, and return its result.

        Cancelling the caller does not cancel a write in progress.
        """
        return await uncancelled(self.transact(work))

    async def transact(
        self, work: Callable[[Tx, Effects], T], *, brief: bool = False, durable: Callable[[], None] = lambda: None
    ) -> T:
        """Do the same in the caller's task, which nobody may cancel; `durable` is called before the effects.

        `brief`: see `Store.write`.
        """
        effects = Effects()

        def attempt(tx: Tx) -> T:
            nonlocal effects
            effects = Effects()
            answer = work(tx, effects)
            store_unsettled(tx, effects)
            return answer

        try:
            answer = await self.commit(attempt, brief=brief)
        except Unconfirmed:
            self.unconfirmed_effects.append(effects)
            raise
        durable()
        try:
            self.apply_effects(effects)
        except Exception:  # internal error: memory has to be compared with the store
            self.commit_outcome_unknown = True
            raise
        return answer

    async def commit(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` in the store for callers that update memory themselves; note an unknown commit outcome."""
        try:
            return await self.store.write(work, brief=brief)
        except (Unconfirmed, asyncio.CancelledError):
            self.commit_outcome_unknown = True
            raise

    async def settle_remaining(self) -> None:
        """Settle the dependents that earlier transactions left over, a limited number per write."""
        while self.unsettled:
            self.unsettled = False
            await self.write(lambda tx, fx: settle_stored(tx, fx, self.clock.now()))

    def apply_effects(self, effects: Effects) -> None:
        """Update the fleet in memory to what was committed, and wake the waiting tasks."""
        for cluster in effects.clusters.values():
            self.fleet.update(cluster)
        for name, fence, spec, owner in effects.placed:
            if (member := self.fleet.get(name)) is not None and fence not in member.placements:
                self.fleet.place(name, fence, self.request_of(spec), owner)
        for name, fence, nodes in effects.nodes:
            self.fleet.move_to_nodes(name, fence, nodes_of(nodes))
        for name, fence in effects.released:
            self.fleet.release(name, fence)
        for name, good in effects.outcomes:
            self.fleet.record_outcome(name, good)
        for name in effects.removed:  # a cluster re-registered under this name starts clean
            self.fleet.remove(name)
            self.presence.forget(name)
            self.bidding.forget(name)
        self.unsettled = self.unsettled or effects.unsettled
        self.pending.remove(effects.left_pending)
        self.pending.add_queued(effects.queued)
        for waiting, excluded in effects.waiting:
            if self.pending.group_of(waiting.job) is None:
                self.pending.add(self.fleet, waiting, excluded)
        if effects.clusters or effects.released or effects.removed or effects.nodes:
            self.pending.changed()
        for name in sorted(effects.wake):
            self.notifier.notify(cluster_topic(name))
        if effects.cluster_reports:
            self.history = self.history.after(effects.cluster_reports)
        if effects.events:
            self.notifier.notify(EVENTS)
        if effects.output:
            self.notifier.notify(OUTPUT)

    async def held_jobs(self, hold: Hold, most: int) -> AsyncIterator[list[WaitingJob]]:
        """Yield the jobs that are held for this reason, at most `most` at a time."""

        def page(after: int, tx: Tx) -> list[WaitingJob]:
            return tx.waiting(hold, most, after)

        after = 0
        while found := await self.store.read(partial(page, after)):
            yield found
            after = found[-1].job

    def request_of(self, spec: str) -> PreparedRequest:
        return self.requests.of_text(spec)


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` in a task of its own, which goes on if the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


def _log_failure(write_task: asyncio.Future[T]) -> None:
    """Log the error of a write whose caller was cancelled."""
    if not write_task.cancelled() and (error := write_task.exception()) is not None:
        log.warning("a write whose caller has gone away failed: %s", error)
