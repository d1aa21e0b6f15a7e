"""Faults of a world: their rates, unreliable links to the server, and their injection and repair.

Messages are lost, duplicated, delayed and reordered, and links are partitioned; processes crash, disks fill up and
clocks jump.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from rainbow_sched.protocol.report_reader import REPORTED
from rainbow_sched.simulation.loop import VirtualLoop

if TYPE_CHECKING:
    from rainbow_sched.simulation.world import World

STEP_SECONDS = 0.5  # between two draws
MIN_FAULT_SECONDS, MAX_FAULT_SECONDS = 8.0, 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """Probabilities and rates of faults; by default there are none."""

    loss: float = 0.0  # of a message in either direction
    doubling: float = 0.0
    slow: float = 0.0  # chance that a message or a step takes seconds instead of milliseconds
    partition: float = 0.0  # rates are events per minute and per object
    server_crash: float = 0.0
    takeover: float = 0.0  # a server is suspended and resumes after another one has taken over
    agent_crash: float = 0.0
    long_outages: float = 0.3  # chance that what crashed is away for longer than every lease
    journal_lost: float = 0.0  # chance that a crashed agent comes back without its journal
    reboot: float = 0.0  # chance that a crashed agent's machine restarted, and its clock with it
    manager_error: float = 0.0  # chance that a request to a manager fails
    manager_forgets: float = 0.0  # chance that a manager forgets a job soon after its end
    refusal: float = 0.0  # chance that a site rejects an offer
    disk_full: float = 0.0
    clock_jump: float = 0.0  # of the server's wall clock, by up to an hour
    older_server: float = 0.0  # chance that a server process does not know every state that agents report
    restore: float = 0.0  # of the server's database from an older copy
    apply_refused: float = 0.0  # chance that the store refuses a plan, as if a cluster or a job had just changed
    manager_loses: float = 0.0  # chance that a manager loses an accepted job before it starts


NO_FAULTS = FaultRates()


def draw_rates(rng: Random, later: Random) -> FaultRates:
    """Draw the rates of one world; most worlds have several kinds of faults.

    Newer kinds are drawn from `later`, so that the older faults of a seed do not change.
    """

    def some(chance: float, low: float, high: float, rng: Random = rng) -> float:
        return rng.uniform(low, high) if rng.random() < chance else 0.0

    return FaultRates(
        loss=some(0.6, 0.01, 0.3),
        doubling=some(0.6, 0.02, 0.3),
        slow=some(0.7, 0.01, 0.2),
        partition=some(0.5, 0.5, 3.0),
        server_crash=some(0.6, 0.5, 5.0),
        agent_crash=some(0.6, 0.5, 4.0),
        journal_lost=some(0.1, 0.1, 0.5),
        reboot=some(0.2, 0.1, 0.5),
        manager_error=some(0.6, 0.02, 0.3),
        manager_forgets=some(0.5, 0.1, 0.9),
        refusal=some(0.4, 0.05, 0.4),
        disk_full=some(0.2, 0.3, 2.0),
        clock_jump=some(0.4, 0.5, 3.0),
        older_server=some(0.3, 0.2, 0.8, later),
        manager_loses=some(0.3, 0.02, 0.2, later),
        takeover=some(0.3, 0.5, 3.0, later),
        restore=some(0.2, 2.0, 6.0, later),
        apply_refused=some(0.4, 0.05, 0.6, later),
    )


@dataclass(slots=True)
class Link:
    """The connection of one peer; each direction can fail separately."""

    loop: VirtualLoop
    rng: Random
    rates: FaultRates
    up: bool = True  # towards the server
    down: bool = True
    cut_until: float = 0.0

    def ask(self, deliver: Callable[[], object]) -> None:
        """Send a message to the server."""
        if self.up:
            self._carry(deliver)

    def answer(self, deliver: Callable[[], object]) -> None:
        """Send a message from the server."""
        if self.down:
            self._carry(deliver)

    def mend(self) -> None:
        self.up = self.down = True

    def delay(self) -> float:
        """Return the delay of a message: milliseconds, or sometimes long enough for many others to overtake it."""
        if self.rng.random() < self.rates.slow:
            return self.rng.uniform(0.1, 12.0)
        return self.rng.uniform(0.0005, 0.02)

    def _carry(self, deliver: Callable[[], object]) -> None:
        if self.rng.random() < self.rates.loss:
            return
        self.loop.call_later(self.delay(), deliver)
        if self.rng.random() < self.rates.doubling:
            self.loop.call_later(self.delay() * 3, deliver)


async def run_faults(world: World) -> None:
    """Let users act and inject faults for a while."""
    rng, loop = world.rng, world.loop
    until = loop.time() + rng.uniform(MIN_FAULT_SECONDS, MAX_FAULT_SECONDS)
    busy = rng.uniform(0.1, 0.4)  # chance of a user action per step
    while loop.time() < until:
        await asyncio.sleep(STEP_SECONDS * rng.uniform(0.1, 1.9))
        if rng.random() < busy:
            world.users.act()
        _inject(world, world.rates)


def _inject(world: World, rates: FaultRates) -> None:
    rng, per_step = world.rng, STEP_SECONDS / 60.0
    if rng.random() < rates.server_crash * per_step:
        world.server.crash()
        world.loop.call_later(_downtime(world), world.server.start)
    if rates.takeover and rng.random() < rates.takeover * per_step:
        world.server.replace(rng.uniform(1.0, 40.0))
    if rates.restore and rng.random() < rates.restore * per_step:
        world.backup_or_restore()
    if rng.random() < rates.disk_full * per_step:
        _fill_disk(world)
    if rng.random() < rates.clock_jump * per_step:
        world.wall.offset += rng.uniform(-3600.0, 3600.0)
        world.note("clock jumps")
    for agent in world.agents.values():
        if rng.random() < rates.agent_crash * per_step:
            agent.crash(journal_lost=rng.random() < rates.journal_lost, rebooted=rng.random() < rates.reboot)
            world.loop.call_later(_downtime(world), agent.start)
        if rng.random() < rates.partition * per_step:
            _cut(world, agent.cluster)


def _downtime(world: World) -> float:
    """Usually short, sometimes longer than every lease."""
    short = world.rng.random() < 1.0 - world.rates.long_outages
    return world.rng.uniform(0.05, 3.0) if short else world.rng.uniform(3.0, 30.0)


def _cut(world: World, cluster: str) -> None:
    wire = world.agents[cluster].wire
    which = world.rng.randrange(3)
    wire.up, wire.down = which == 1, which == 2
    world.note("cut", cluster, wire.up, wire.down)

    long = world.rng.random() < 0.3
    seconds = world.rng.uniform(20.0, 60.0) if long else world.rng.uniform(0.5, 15.0)
    wire.cut_until = max(wire.cut_until, world.loop.time() + seconds)

    def mend() -> None:
        if world.loop.time() >= wire.cut_until:
            wire.mend()
            world.note("mended", cluster)

    world.loop.call_later(seconds, mend)


def _fill_disk(world: World) -> None:
    world.server.full, world.witness.disk_since = True, None
    world.note("disk full")

    def free() -> None:
        world.server.full, world.witness.disk_since = False, world.loop.time()
        world.note("disk free")

    world.loop.call_later(world.rng.uniform(0.5, 10.0), free)


def stop_faults(world: World, rates: FaultRates) -> None:
    """Set new rates, repair everything, and start every process."""
    world.rates = world.server.rates = world.users.wire.rates = rates
    world.server.full, world.witness.disk_since = False, world.loop.time()
    if world.server.states != REPORTED:
        world.server.crash()  # it is upgraded
    world.server.start()
    for agent in world.agents.values():
        agent.wire.rates = agent.manager.rates = rates
        agent.wire.mend()
        agent.start()
