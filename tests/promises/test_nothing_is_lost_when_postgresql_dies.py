"""PostgreSQL crashes and comes back under load: what was acknowledged is there, and the server recovers by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Fleet, Submitters, a_fleet
from tests.support.postgres import Postgres, running_postgres

pytestmark = pytest.mark.timeout(180)
CRASHES = int(os.environ.get("RAINBOW_CRASHES", "4"))


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """A PostgreSQL for these tests only, because they crash it."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def fleet(database: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    with a_fleet(tmp_path, db=database.new_database()) as running:
        yield running


def test_no_acknowledged_job_is_lost_when_the_database_crashes_under_load(fleet: Fleet, database: Postgres) -> None:
    rng = Random(11)
    for name in ("east", "west"):
        fleet.add(name)
    with Submitters(fleet, 4) as load:
        for _ in range(CRASHES):
            fleet.server_lives(0.5 + rng.random())
            database.crash()
            fleet.server_lives(rng.random() * 0.8)
            database.start()
        fleet.server_lives(0.5)
    counts = fleet.counts(load.codes)
    print(f"{CRASHES} crashes of PostgreSQL: {counts}, {len(load.refused)} clients gave up")
    counts.check()
    assert load.refused == []
    assert "Traceback" not in fleet.server.log


def test_without_its_database_the_server_says_so_and_recovers_when_it_is_back(fleet: Fleet, database: Postgres) -> None:
    fleet.add("east")
    gate = fleet.server.folder / "gate"
    running, held = fleet.submit("east", gate=gate), fleet.submit("east", code=2, gate=gate)
    fleet.until_running(running, held)
    database.crash()
    try:
        # The job ends while nothing can be stored; its agent tells it again until it can.
        gate.touch()
        done = fleet.server.run("submit", "--", "true", check=False)
        assert (done.returncode, done.stdout) == (6, ""), done.stderr
        assert "PostgreSQL" in done.stderr
    finally:
        database.start()
    counts = fleet.counts({running: 0, held: 2, fleet.submit("east", code=1): 1})
    print(f"PostgreSQL away for as long as a client waits: {counts}")
    counts.check()
    assert "Traceback" not in fleet.server.log
