"""How often a manager is asked, and how many submissions run side by side."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common import call_rates
from rainbow_sched.agent.backends.common.call_rates import CachedFacts, PollInterval, SubmitLocks
from rainbow_sched.agent.core.values import ClusterFacts
from rainbow_sched.model.errors import Unavailable


async def test_pauses_grow_to_the_cap_and_shrink_when_something_was_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_rates, "FIRST_SECONDS", 0.002)
    pace, pauses = PollInterval(cap=0.005), []
    for _ in range(5):
        pauses.append(pace._next)
        await pace.wait(lambda: False)
    assert pauses == pytest.approx([0.002, 0.003, 0.0045, 0.005, 0.005])
    pace.reset()
    assert pace._next == 0.002


async def test_a_running_job_that_writes_something_ends_the_pause(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_rates, "FILE_CHECK_SECONDS", 0.01)
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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=20), st.integers(1, 4))
def test_nobody_shares_a_tag_and_not_too_many_are_in(callers: list[tuple[str, int]], most: int):
    inside: Counter[str] = Counter()
    done = []

    async def call(turns: SubmitLocks, tag: str, steps: int) -> None:
        async with turns.of(tag):
            inside[tag] += 1
            assert inside[tag] == 1
            assert sum(inside.values()) <= most
            for _ in range(steps):
                await asyncio.sleep(0)
            inside[tag] -= 1
            done.append(tag)

    async def main() -> None:
        turns = SubmitLocks(most)
        tasks = [asyncio.create_task(call(turns, tag, steps)) for tag, steps in callers]
        if tasks:
            await asyncio.sleep(0)
            tasks[-1].cancel()  # one hangs up
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks[:-1]:
            task.result()
        inside.clear()
        await call(turns, "a", 1)
        assert not turns._locks

    asyncio.run(main())
    assert len(done) >= len(callers)
