"""What goes wrong in a world, and when: crashes, cuts, full disks, clocks that jump; then calm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rainbow_sched.service.agents.report_reader import REPORTED
from rainbow_sched.simulation.fault_rates import Weather

if TYPE_CHECKING:
    from rainbow_sched.simulation.world import World

STEP = 0.5  # seconds between two throws of the dice
SHORTEST, LONGEST = 8.0, 40.0  # seconds of trouble


async def happen(world: World) -> None:
    """Let users work and things go wrong for a while."""
    rng, loop = world.rng, world.loop
    until = loop.time() + rng.uniform(SHORTEST, LONGEST)
    busy = rng.uniform(0.1, 0.4)  # chance that somebody does something within one step
    while loop.time() < until:
        await asyncio.sleep(STEP * rng.uniform(0.1, 1.9))
        if rng.random() < busy:
            world.users.act()
        _throw(world, world.weather)


def _throw(world: World, weather: Weather) -> None:
    rng, per_step = world.rng, STEP / 60.0
    if rng.random() < weather.server_crash * per_step:
        world.server.crash()
        world.loop.call_later(_downtime(world), world.server.start)
    if weather.takeover and rng.random() < weather.takeover * per_step:
        world.server.replace(rng.uniform(1.0, 40.0))
    if weather.restore and rng.random() < weather.restore * per_step:
        world.backup_or_restore()
    if rng.random() < weather.disk_full * per_step:
        _fill_disk(world)
    if rng.random() < weather.clock_jump * per_step:
        world.wall.offset += rng.uniform(-3600.0, 3600.0)
        world.note("clock jumps")
    for agent in world.agents.values():
        if rng.random() < weather.agent_crash * per_step:
            agent.crash(journal_lost=rng.random() < weather.journal_lost, rebooted=rng.random() < weather.reboot)
            world.loop.call_later(_downtime(world), agent.start)
        if rng.random() < weather.partition * per_step:
            _cut(world, agent.cluster)


def _downtime(world: World) -> float:
    """Usually short, sometimes longer than every lease."""
    short = world.rng.random() < 1.0 - world.weather.long_outages
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


def calm(world: World, weather: Weather) -> None:
    """No more faults: everything that is broken is mended, everybody who is down starts."""
    world.weather = world.server.weather = world.users.wire.weather = weather
    world.server.full, world.witness.disk_since = False, world.loop.time()
    if world.server.states != REPORTED:
        world.server.crash()  # it is upgraded
    world.server.start()
    for agent in world.agents.values():
        agent.wire.weather = agent.manager.weather = weather
        agent.wire.mend()
        agent.start()
