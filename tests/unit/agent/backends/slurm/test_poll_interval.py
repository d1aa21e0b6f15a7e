"""How often a manager is asked, and what is said when it cannot be."""

import asyncio

import pytest

from rainbow_sched.agent.backends.common import poll_interval
from rainbow_sched.agent.backends.common.cached_facts import CachedFacts
from rainbow_sched.agent.backends.common.poll_interval import PollInterval
from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import Unavailable


async def test_pauses_grow_to_the_cap_and_shrink_when_something_was_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(poll_interval, "FIRST_SECONDS", 0.002)
    pace, pauses = PollInterval(cap=0.005), []
    for _ in range(5):
        pauses.append(pace._next)
        await pace.wait(lambda: False)
    assert pauses == pytest.approx([0.002, 0.003, 0.0045, 0.005, 0.005])
    pace.reset()
    assert pace._next == 0.002


async def test_a_running_job_that_writes_something_ends_the_pause(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(poll_interval, "FILE_CHECK_SECONDS", 0.01)
    pace = PollInterval(cap=30.0)
    pace._next = 30.0
    async with asyncio.timeout(10):
        await pace.wait(lambda: True)


async def test_facts_are_looked_for_once_per_interval_and_old_ones_stand_when_that_fails():
    now, looks = [0.0], []

    async def look() -> ClusterFacts:
        looks.append(now[0])
        if now[0] == 20.0:
            raise Unavailable("no")
        return ClusterFacts(manager="m", state={"at": now[0]})

    kept = CachedFacts("m", 10.0, lambda: now[0])
    seen = []
    for at in (0.0, 5.0, 10.0, 20.0, 21.0, 30.0):
        now[0] = at
        seen.append((await kept.get(look)).state["at"])
    assert (seen, looks) == ([0.0, 0.0, 10.0, 10.0, 10.0, 30.0], [0.0, 10.0, 20.0, 30.0])
