"""The simulation's own parts: virtual time, a database that survives crashes, links with faults."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.simulation.faults import NO_FAULTS, FaultRates, Link, draw_rates
from rainbow_sched.simulation.loop import Deadlock, Process, VirtualLoop
from rainbow_sched.simulation.server import Disk, SimStore
from rainbow_sched.simulation.world import run
from rainbow_sched.store.base import Tx
from tests.support.fault_rates import MANY_FAULTS


def ignore(*_: object) -> None:
    return None


@pytest.fixture
def loop():
    made = VirtualLoop()
    yield made
    made.close()


def test_an_hour_passes_at_once_and_in_order(loop: VirtualLoop) -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, loop.time()))

    async def life() -> None:
        await asyncio.gather(sleeper("late", 3600.0), sleeper("soon", 0.5))

    loop.run_until_complete(life())
    assert seen == [("soon", 0.5), ("late", 3600.0)]


def test_a_world_without_timers_raises_deadlock(loop: VirtualLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


def test_a_crash_ends_every_task_of_a_process_and_no_other(loop: VirtualLoop) -> None:
    done: list[str] = []

    async def works(name: str) -> None:
        await asyncio.sleep(1.0)
        done.append(name)

    async def starts_more() -> None:
        await asyncio.gather(works("child"), works("another child"))

    async def life() -> None:
        dying, living = Process(ignore), Process(ignore)
        dying.spawn(loop, starts_more())
        living.spawn(loop, works("neighbour"))
        await asyncio.sleep(0.5)
        dying.crash()
        await asyncio.sleep(1.0)

    loop.run_until_complete(life())
    assert done == ["neighbour"]


def test_what_is_committed_survives_a_crash_and_what_is_not_does_not(loop: VirtualLoop) -> None:
    disk, process = Disk(ignore), Process(ignore)
    store = SimStore(disk, process, lambda: 0.2, lambda: False)

    async def writes(key: str) -> None:
        await store.write(lambda tx: tx.set_meta(key, "stored"))

    async def life() -> None:
        process.spawn(loop, writes("first"))
        await asyncio.sleep(0.3)  # committed, not yet answered
        process.spawn(loop, writes("second"))
        await asyncio.sleep(0.1)
        process.crash()
        await asyncio.sleep(1.0)

    loop.run_until_complete(life())
    assert disk.look(lambda tx: (tx.meta("first"), tx.meta("second"))) == ("stored", None)
    disk.close()


def test_a_failed_work_leaves_nothing_behind_and_a_full_disk_takes_nothing(loop: VirtualLoop) -> None:
    disk = Disk(ignore)
    full = False
    store = SimStore(disk, Process(ignore), lambda: 0.0, lambda: full)

    def fails(tx: Tx) -> None:
        tx.set_meta("key", "half")
        raise Unavailable("on purpose")

    with pytest.raises(Unavailable, match="on purpose"):
        loop.run_until_complete(store.write(fails))
    full = True
    with pytest.raises(Unavailable, match="full"):
        loop.run_until_complete(store.write(lambda tx: tx.set_meta("key", "whole")))
    assert disk.look(lambda tx: tx.meta("key")) is None
    disk.close()


@pytest.mark.parametrize(
    ("rates", "arrived"), [(NO_FAULTS, 100), (FaultRates(loss=1.0), 0), (FaultRates(doubling=1.0), 200)], ids=str
)
def test_a_link_loses_and_duplicates_messages_at_the_given_rates(
    loop: VirtualLoop, rates: FaultRates, arrived: int
) -> None:
    link, got = Link(loop, Random(1), rates), []
    for number in range(100):
        link.ask(lambda number=number: got.append(number))
    loop.run_until_complete(asyncio.sleep(100.0))
    assert len(got) == arrived
    link.up = False
    link.ask(lambda: got.append(-1))
    loop.run_until_complete(asyncio.sleep(100.0))
    assert -1 not in got


def test_the_rates_follow_from_the_seed() -> None:
    assert draw_rates(Random(5), Random(6)) == draw_rates(Random(5), Random(6))
    assert len({draw_rates(Random(seed), Random(seed)) for seed in range(20)}) > 10


def test_with_and_without_faults_jobs_run_and_promises_are_kept() -> None:
    for rates in (NO_FAULTS, MANY_FAULTS):
        outcome = run(3, rates)
        assert outcome.violation is None, outcome.violation
        assert outcome.launches > 0
