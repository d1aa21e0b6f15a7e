"""The server killed or paused while agents run jobs and clients submit: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Fleet, Submitters, a_fleet, a_quick_fleet

pytestmark = pytest.mark.timeout(180)
KILLS = int(os.environ.get("RAINBOW_KILL_CYCLES", "40"))
CUTS = max(3, KILLS // 15)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with a_fleet(tmp_path) as running:
        yield running


def test_nothing_is_lost_when_the_server_is_killed_again_and_again_under_load(tmp_path: Path) -> None:
    rng = Random(7)
    with a_quick_fleet(tmp_path) as fleet:
        for name in ("east", "west"):
            fleet.add(name)
        with Submitters(fleet, 4) as load:
            for _ in range(KILLS):
                fleet.server_lives(0.1 + 0.3 * rng.random())
                fleet.server.kill()
                fleet.server.start()
            fleet.server_lives(0.3)
        counts = fleet.counts(load.codes)
        print(f"{KILLS} kills of the server: {counts}, {len(load.refused)} clients gave up")
        counts.check()
        assert load.refused == []
        assert sum(fleet.tally.starts().values()) == len(fleet.client.jobs(limit=100_000))  # nothing ran unasked


def test_a_paused_server_loses_nothing_and_marks_no_cluster_lost(fleet: Fleet) -> None:
    for name in ("east", "west"):
        fleet.add(name)
    codes = fleet.submit_many(24, seconds=lambda i: 0.1 * (i % 8))
    fleet.until_running(min(codes))
    server = fleet.server.process
    assert server is not None
    with Submitters(fleet, 2) as load:
        for seconds in (1.0, 3.0):
            server.send_signal(signal.SIGSTOP)
            fleet.agents["east"].lives(seconds)
            server.send_signal(signal.SIGCONT)
            fleet.server_lives(0.5)
    counts = fleet.counts(codes | load.codes)
    print(f"2 pauses of the server: {counts}, {len(load.refused)} clients gave up")
    counts.check()
    assert load.refused == []
    assert {cluster.standing for cluster in fleet.client.clusters()} == {"active"}


def test_following_a_job_survives_a_kill_of_the_server(fleet: Fleet) -> None:
    fleet.add("east")
    gate = fleet.server.folder / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last; exit 7"
    with (
        fleet.begin("run", "--", "/bin/sh", "-c", script) as attached,
        fleet.begin("jobs", "-w", "-o", "jsonl") as watching,
    ):
        assert attached.stdout is not None
        assert watching.stdout is not None
        assert attached.stdout.readline() == "first\n"
        [job] = fleet.client.jobs()
        with fleet.begin("wait", str(job.id)) as waiting:
            for _ in range(3):
                fleet.server.kill()
                fleet.server.start()
            gate.touch()
            assert (attached.communicate(timeout=60)[0], attached.returncode) == ("last\n", 7)
            assert waiting.wait(60) == 7
        seen = []
        for line in watching.stdout:
            seen.append(json.loads(line))
            if seen[-1].get("state") == "failed":
                break
        watching.terminate()
    counts = [event["seq"] for event in seen if "seq" in event]
    assert counts == sorted(set(counts))
    assert fleet.tally.starts() == {}
    assert [event.state for event in fleet.until(job.id, lambda event: event.last)].count("failed") == 1


def test_server_and_agents_killed_together_lose_nothing(fleet: Fleet) -> None:
    """A power cut of everything but the jobs."""
    rng = Random(13)
    agents = [fleet.add(name) for name in ("east", "west")]
    codes = fleet.submit_many(48, seconds=lambda i: 0.05 + rng.random())
    fleet.until_running(min(codes))
    for _ in range(CUTS):
        fleet.server_lives(rng.random())
        for agent in agents:
            agent.kill()
        fleet.server.kill()
        for agent in agents:  # they find nobody, and try again
            agent.start()
        fleet.server.start()
    counts = fleet.counts(codes)
    print(f"{CUTS} power cuts: {counts}")
    counts.check()


def test_a_client_with_a_short_timeout_reports_the_unreachable_server(fleet: Fleet) -> None:
    fleet.add("east")
    fleet.server.kill()
    done = fleet.server.run("submit", "--", "true", check=False)
    assert done.returncode == 6
    assert done.stdout == ""
    assert "no Rainbow server answers" in done.stderr
    fleet.server.start()
    assert fleet.client.jobs() == ()
