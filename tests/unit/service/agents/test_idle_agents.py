"""Agents that wait: they cost little, and miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from rainbow_sched.service.agents import sync
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.views import jobs
from tests.support.agents import Agent
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with a_service(tmp_path) as made:
        await with_cluster(made, "east")
        yield made


async def test_an_agent_with_nothing_to_say_or_to_hear_costs_no_write(service: Service) -> None:
    [job] = await submit(service, a_submission())
    agent = Agent(service, "east")
    ref = await agent.runs()
    writes = service.core.store.counts.works  # type: ignore[attr-defined]  # the engine counts them
    for _ in range(3):
        await agent.says(want=5, held=((ref, "running"),))
    assert service.core.store.counts.works == writes  # type: ignore[attr-defined]
    await jobs.cancel(service.core, [job.id], None, ADMIN, "")
    assert [command.ref.job for command in (await agent.says(held=((ref, "running"),))).commands] == [job.id]


async def test_what_is_stored_between_the_look_and_the_wait_is_not_missed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, "east")
    await agent.says()
    await agent.says(want=1)

    def look(self: object, tx: object, told: object) -> object:
        seen = original(service.agents, tx, told)
        loop.call_soon_threadsafe(arrived.set)
        return seen

    loop, arrived, original = asyncio.get_running_loop(), asyncio.Event(), type(service.agents)._stored_answer
    monkeypatch.setattr(type(service.agents), "_stored_answer", look)
    waiting = asyncio.create_task(agent.says(want=1, wait=20.0))
    await arrived.wait()
    await submit(service, a_submission())
    async with asyncio.timeout(5):
        assert len((await waiting).offers) == 1


def test_agents_that_came_together_do_not_return_together(service: Service) -> None:
    shares = {sync._wait_factor(service.core.fleet, name) for name in service.core.fleet.names()}
    assert all(0.8 <= share <= 1.0 for share in shares)
    spread = sorted(0.8 + 0.2 * (id * sync.GOLDEN_RATIO % 1.0) for id in range(1, 101))
    assert max(b - a for a, b in pairwise(spread)) < 0.2 / 25, "no two dozen of a hundred come at one time"
