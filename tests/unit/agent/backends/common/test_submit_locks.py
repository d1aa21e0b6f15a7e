"""Submissions side by side: of one tag one at a time, of all no more than allowed."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.submit_locks import SubmitLocks


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
