"""Random kills, pauses and partitions while users submit and cancel."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Agent, Fleet, Submitters, a_fleet
from tests.support.proxy import DOWN, UP, Proxy, a_proxy

pytestmark = pytest.mark.timeout(int(os.environ.get("RAINBOW_FAULT_TIMEOUT", "180")))
TROUBLES = int(os.environ.get("RAINBOW_TROUBLES", "10"))
SEED = int(os.environ.get("RAINBOW_FAULT_SEED", "1"))


def _troubles(fleet: Fleet, proxy: Proxy, agents: list[Agent], rng: Random) -> dict[str, Callable[[], None]]:
    def kill_agent() -> None:
        victim = rng.choice(agents)
        victim.kill()
        victim.start()

    def kill_server() -> None:
        fleet.server.kill()
        fleet.server.start()

    def kill_both() -> None:
        agents[0].kill()
        fleet.server.kill()
        agents[0].start()
        fleet.server.start()

    def pause_agent() -> None:
        with rng.choice(agents).paused():
            fleet.server_lives(rng.random())

    def pause_server() -> None:
        assert fleet.server.process is not None
        fleet.server.process.send_signal(signal.SIGSTOP)
        agents[0].lives(rng.random())
        fleet.server.process.send_signal(signal.SIGCONT)

    def part() -> None:
        ways = rng.choice([(UP,), (DOWN,), (UP, DOWN)])
        trouble = rng.choice([proxy.apart(), proxy.silent(*ways), proxy.stalled(*ways)])
        with trouble:
            if rng.random() < 0.5:
                kill_agent()
            fleet.server_lives(rng.random())

    found = (kill_agent, kill_server, kill_both, pause_agent, pause_server, part)
    return {trouble.__name__: trouble for trouble in found}


def test_no_job_is_lost_or_run_twice_under_all_faults(tmp_path: Path) -> None:
    rng = Random(SEED)
    with a_fleet(tmp_path) as fleet, a_proxy(fleet.server.address) as proxy:
        agents = [fleet.add(name, server=proxy.address) for name in ("east", "west")]
        troubles = _troubles(fleet, proxy, agents, rng)
        happened = []
        cancelled: dict[int, str] = {}
        with Submitters(fleet, 3) as load:
            for _ in range(TROUBLES):
                fleet.server_lives(rng.random() / 2)
                name = rng.choice(sorted(troubles))
                happened.append(name)
                ids = [fleet.submit(seconds=30) for _ in range(2)]
                troubles[name]()
                cancelled |= {job.id: job.state for job in fleet.client.cancel(ids)}
        counts = fleet.counts(load.codes)
        ended = fleet.ended(*cancelled)
        starts = fleet.tally.starts()
        doubled = sum(starts[id] > 1 for id in cancelled)
        print(f"{', '.join(happened)}: {counts}; {len(cancelled)} cancelled, {doubled} of them doubled")
        counts.check()
        assert {job.state for job in ended} == {"cancelled"}
        assert doubled == 0
        assert not any(fleet.tally.ends()[id] for id in cancelled)
        assert load.refused == []
        for log in (fleet.server.log, *(agent.log for agent in agents)):
            assert "Traceback" not in log
        fleet.stop()
