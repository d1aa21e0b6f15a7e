"""Agents killed, restarted and paused while jobs run: nothing is lost, nothing runs twice, every result is right."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.agent.backends.local.wrapper import start_time
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


def test_an_agent_that_stood_still_for_longer_than_its_heartbeat_goes_on_where_it_was(tmp_path: Path) -> None:
    quick = "scheduler: {timing: {heartbeat: 1, silent_after: 1, long_poll: 1, lease: 3}}"
    with a_fleet(tmp_path, config=quick) as fleet:
        gate = tmp_path / "gate"
        east, west = fleet.add("east", "--max-jobs", "8"), fleet.add("west", "--max-jobs", "8")
        held = [fleet.submit("east", gate=gate, code=i) for i in range(3)]
        fleet.until_running(*held)
        with east.paused():
            # Work that the silent cluster was offered and never took goes to the other one.
            codes = {fleet.submit(code=i % 3): i % 3 for i in range(12)}
            _until_standing(fleet, "east", "unreachable")
            gate.touch()  # the jobs go on, though nobody watches them
            fleet.ended(*codes)
            assert {job.cluster for job in fleet.ended(*codes)} == {"west"}
            assert [fleet.client.job(id).state for id in held] == ["bound"] * 3
        codes |= {id: i for i, id in enumerate(held)}
        counts = fleet.counts(codes)
        _until_standing(fleet, "east", "active")
        after = fleet.submit("east")
        assert fleet.ended(after)[0].state == "succeeded"
        for agent in (east, west):
            agent.lives(0.01)
        print(f"an agent paused past its heartbeat: {counts}")
        counts.check()


def _until_standing(fleet: Fleet, cluster: str, standing: str) -> None:
    """Wait until the cluster has this standing, by polling."""
    until = time.monotonic() + 30
    while (now := fleet.client.cluster(cluster).standing) != standing:
        assert time.monotonic() < until, f"{cluster} is {now}, not {standing}"
        fleet.agents[cluster].lives(0.1)


def test_a_job_whose_runner_is_killed_ends_once_and_leaves_nothing_behind(fleet: Fleet) -> None:
    fleet.add("east")
    note = fleet.server.folder / "pids"
    script = f"sleep 60 & echo $PPID $$ $! > {note}.new; mv {note}.new {note}; echo begun; wait"
    job = fleet.client.submit(["/bin/sh", "-c", script])
    next(fleet.client.logs(job.id, follow=True))
    runner, *own = map(int, note.read_text().split())
    os.kill(runner, signal.SIGKILL)
    [ended] = fleet.ended(job.id)
    print(f"a runner killed: {ended.state}, {ended.failure}, {ended.reason!r}")
    assert (ended.state, ended.failure, ended.attempt) == ("failed", "outcome-unknown", 1)
    until = (
        time.monotonic() + 10
    )  # they were killed before the end was reported; dying takes a moment on a busy machine
    while left := [pid for pid in own if start_time(pid) is not None]:
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(0.02)
    assert fleet.output(job.id) == b"begun\n"
