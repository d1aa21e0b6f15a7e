"""The server killed or paused while agents run jobs and clients submit: nothing is lost, nothing doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Fleet, Submitters, a_fleet

pytestmark = pytest.mark.timeout(180)
KILLS = int(os.environ.get("RAINBOW_KILL_CYCLES", "6"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with a_fleet(tmp_path) as running:
        yield running


def test_nothing_is_lost_when_the_server_is_killed_again_and_again_under_load(fleet: Fleet) -> None:
    rng = Random(7)
    for name in ("east", "west"):
        fleet.add(name)
    with Submitters(fleet, 4) as load:
        for _ in range(KILLS):
            fleet.server_lives(0.3 + rng.random())
            fleet.house.kill()
            fleet.house.start()
        fleet.server_lives(0.3)
    counts = fleet.counts(load.codes)
    print(f"{KILLS} kills of the server: {counts}, {len(load.refused)} clients gave up")
    counts.check()
    assert load.refused == []
    assert sum(fleet.tally.starts().values()) == len(fleet.client.jobs(limit=100_000))  # nothing ran unasked


def test_a_server_that_stood_still_loses_nothing_and_blames_nobody(fleet: Fleet) -> None:
    for name in ("east", "west"):
        fleet.add(name)
    codes = fleet.submit_many(24, seconds=lambda i: 0.1 * (i % 8))
    fleet.until_running(min(codes))
    server = fleet.house.process
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


def test_a_client_without_patience_is_told_that_the_server_is_away(fleet: Fleet) -> None:
    fleet.add("east")
    fleet.house.kill()
    done = fleet.house.run("submit", "--", "true", check=False)
    assert done.returncode == 6
    assert done.stdout == ""
    assert "no Rainbow server answers" in done.stderr
    fleet.house.start()
    assert fleet.client.jobs() == ()
