"""Agents killed, restarted and paused while jobs run: nothing is lost, nothing runs twice, every result is right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Fleet, a_fleet

pytestmark = pytest.mark.timeout(180)
KILLS = int(os.environ.get("RAINBOW_KILL_CYCLES", "8"))
JOBS = int(os.environ.get("RAINBOW_FAULT_JOBS", "72"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with a_fleet(tmp_path) as running:
        yield running


def test_jobs_outlive_agents_that_are_killed_at_any_moment(fleet: Fleet) -> None:
    rng = Random(5)
    agents = [fleet.add(name, nodes=3, cores=4) for name in ("east", "west")]
    codes = fleet.submit_many(JOBS, seconds=lambda i: 0.05 + rng.random())
    fleet.until_running(min(codes))
    for _ in range(KILLS):
        victim = rng.choice(agents)
        victim.lives(rng.random() * 1.5)
        victim.kill()
        victim.start()
    counts = fleet.counts(codes)
    print(f"{sum(agent.kills for agent in agents)} kills of agents: {counts}")
    counts.check()
