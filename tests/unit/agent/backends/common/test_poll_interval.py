"""How often a manager is asked."""

import asyncio

import pytest

from rainbow_sched.agent.backends.common import poll_interval
from rainbow_sched.agent.backends.common.poll_interval import PollInterval


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
