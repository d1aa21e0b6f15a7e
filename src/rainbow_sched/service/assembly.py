"""Assemble a service: open the store, load the fleet into memory, start background tasks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from rainbow_sched.graphs.backend import open_backend
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.credential import digest
from rainbow_sched.selection.policies import installed
from rainbow_sched.service.access.principals import CredentialResolver
from rainbow_sched.service.agents.presence import Presence
from rainbow_sched.service.agents.sync import SyncHandler
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.loader import load_fleet, load_jobs
from rainbow_sched.service.clusters.rules import refresh_groups
from rainbow_sched.service.core import Core
from rainbow_sched.service.maintenance import generations, restore
from rainbow_sched.service.maintenance.timers import Timers
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.scheduling.loop import SchedulingLoop
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.submission.intake import Intake
from rainbow_sched.store.base import Store, Tx

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Service:
    """The running service with its background tasks."""

    core: Core
    intake: Intake
    scheduling_loop: SchedulingLoop
    agents: SyncHandler
    timers: Timers
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Start the scheduling loop and the timers."""
        self._running = [asyncio.create_task(self.scheduling_loop.run()), asyncio.create_task(self.timers.run())]

    async def stop(self) -> None:
        """Stop the background tasks, then close the store."""
        for task in self._running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.core.store.close()


async def assemble(store: Store, settings: Settings, clock: Clock, ids: Ids, registration: str) -> Service:
    """Return a service over an open store, with the fleet loaded; `registration` is the registration secret."""
    policies = installed()
    policies.build(settings.policy, settings.policy_options)
    now = clock.now()
    generation, key = ids.fence(), ids.fence()
    await store.write(lambda tx: generations.begin(tx, generation, key, now))
    core = Core(
        store=store,
        fleet=Fleet(open_backend(settings.graph_backend, settings.graph_options)),
        clock=clock,
        ids=ids,
        history=await store.read(generations.read),
        settings=settings,
        credential_resolver=CredentialResolver(store, digest(registration)),
        presence=Presence(settings.heartbeat, settings.silent_after, now),
        policies=policies,
        started_at=now,
    )
    with _no_collections():
        await load_fleet(core)
        await refresh_groups(core)
        await restore.hold_old_pending(core)
        await load_jobs(core)
    await _shorten_leases(core)
    core.started_at = core.presence.started_at = clock.now()  # loading counts as downtime
    return Service(core, Intake(core), SchedulingLoop(core), SyncHandler(core, {}), Timers(core))


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Disable garbage collection while millions of long-lived objects are created."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


async def _shorten_leases(core: Core) -> None:
    """Restart leases that would last too long because the clock was set back since the last event."""
    now = core.clock.now()
    until = now + core.settings.lease

    def work(tx: Tx) -> None:
        last = tx.events(tx.last_seq() - 1, 1)
        if not last or last[0].at <= now:
            return
        for name in core.fleet.names():
            for attempt in tx.attempts_in(name, AttemptState.LEASED):
                if attempt.lease_until is not None and attempt.lease_until > until:
                    tx.update_attempt(attempt, attempt.state, now, lease_until=until)

    await core.store.write(work)
