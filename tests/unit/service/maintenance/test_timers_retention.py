"""What an operator does not want to keep goes, a little at a time; whoever follows jobs is told and misses nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Conflict, NotFound
from rainbow_sched.model.job import Event
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.maintenance import timers
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, a_user, submit, with_cluster

DAY = 86_400.0


async def ended(service: Service, count: int, owner: str = "ana") -> list[int]:
    """Jobs that were cancelled at once."""
    ids = [receipt.id for receipt in await submit(service, *[a_submission(owner)] * count)]
    await jobs.cancel(service.core, ids, None, ADMIN, "")
    return ids


async def left(service: Service) -> int:
    return len(await jobs.listed(service.core, JobSelection(), ADMIN, before=0, limit=1000))


async def first(service: Service, after: int, **said: object) -> Event:
    """The first event that somebody hears who has heard those up to `after`."""
    by = said.pop("by", ADMIN)
    stream = jobs.watch(service.core, JobSelection(**said), by, after)  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(5):
            return await anext(stream)
    finally:
        await stream.aclose()


async def test_without_the_operators_word_everything_is_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        await ended(service, 3)
        clock.advance(10_000 * DAY)
        await service.timers.tick()
        assert await left(service) == 3


async def test_finished_jobs_go_after_their_days_in_small_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "JOBS_DELETED_PER_WRITE", 2)
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock, settings=Settings(policy="first", keep_days=30)) as service:
        await with_cluster(service, "east")
        old = await ended(service, 5)
        clock.advance(20 * DAY)
        await ended(service, 1)
        [living] = await submit(service, a_submission())
        await service.timers.tick()
        assert await left(service) == 7, "none of them is old enough"
        clock.advance(11 * DAY)
        counts = []
        for _ in range(4):
            await service.timers.tick()
            counts.append(await left(service))
        assert counts == [5, 3, 2, 2]
        with pytest.raises(NotFound):
            await jobs.get(service.core, old[0], ADMIN)
        assert (await jobs.get(service.core, living.id, ADMIN)).job.id == living.id


async def test_of_too_many_the_oldest_go_but_no_recent_ones(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock, settings=Settings(policy="first", keep_jobs=2)) as service:
        await with_cluster(service, "east")
        await ended(service, 5)
        await service.timers.tick()
        assert await left(service) == 5, "somebody may still repeat the submission"
        clock.advance(2 * timers.MIN_AGE_SECONDS)
        await service.timers.tick()
        assert await left(service) == 2


async def test_a_watcher_behind_what_was_removed_is_told_so(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock, settings=Settings(policy="first", keep_days=1)) as service:
        await with_cluster(service, "east")
        await ended(service, 2, owner="ana")
        clock.advance(2 * DAY)
        [kept] = await submit(service, replace(a_submission("bob")))
        await service.timers.tick()
        horizon = await service.core.store.read(lambda tx: tx.horizon())
        with pytest.raises(Conflict, match="events after 1 were removed"):
            await first(service, 1)
        with pytest.raises(Conflict, match="removed"):
            await first(service, 1, by=a_user("ana"))
        assert (await first(service, horizon)).job == kept.id, "nothing after it is missing"
        assert (await first(service, 0)).job == kept.id, "from the beginning: of all that is kept"
        assert (await first(service, 1, by=a_user("bob"))).job == kept.id, "of bob's jobs none was removed"
        assert (await first(service, 1, ids=frozenset({kept.id}))).job == kept.id, "nor of this one"


async def test_a_watcher_who_keeps_up_is_not_disturbed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock, settings=Settings(policy="first", keep_days=1)) as service:
        await with_cluster(service, "east")
        stream = jobs.watch(service.core, JobSelection(), a_user("ana"), 0)
        await ended(service, 2, owner="bob")
        *_, last = await ended(service, 2, owner="ana")
        await ended(service, 2, owner="bob")
        event = await anext(stream)
        while not (event.job == last and event.state.terminal):
            event = await anext(stream)
        waiting = asyncio.create_task(anext(stream))
        while not service.core.notifier._waiters:  # it has read all there is
            await asyncio.sleep(0)
        clock.advance(2 * DAY)
        await service.timers.tick()
        assert await left(service) == 0
        [later] = await submit(service, a_submission("ana"))
        async with asyncio.timeout(5):
            assert (await waiting).job == later.id
        await stream.aclose()
