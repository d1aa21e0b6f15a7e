"""Inject faults into a world: crashes, network partitions, full disks, clock jumps; then repair everything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rainbow_sched.protocol.report_reader import REPORTED
from rainbow_sched.simulation.fault_rates import FaultRates

if TYPE_CHECKING:
    from rainbow_sched.simulation.world import World

STEP_SECONDS = 0.5  # between two draws
MIN_FAULT_SECONDS, MAX_FAULT_SECONDS = 8.0, 40.0


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
