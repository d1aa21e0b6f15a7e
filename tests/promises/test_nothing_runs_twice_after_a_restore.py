"""A server whose database was put back, or has lost something: it says so, and nothing runs twice.

Real servers and agents; what ran is counted by the jobs themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rainbow_sched.model.generation import MIN_SKIPPED_IDS
from tests.support.fleet import Fleet, a_fleet
from tests.support.postgres import Postgres
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A server on each of the databases."""
    db = request.getfixturevalue("postgres").new_database() if request.param == "postgresql" else ""
    with a_fleet(tmp_path / "fleet", db=db) as running:
        yield running


def tool(server: ServerProcess, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `rainbow server ...` on the database of a server."""
    place = ["--data-dir", str(server.folder / "data"), *(["--db", server.db] if server.db else [])]
    return server.run("server", *arguments, *place, token="", check=check)


def restored(fleet: Fleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.server.run("restored", "-o", "json", "--limit", "1000").stdout)
    return found


def wait_until_all_reported(fleet: Fleet) -> None:
    """Return when the agents have detected the older database and have sent their reports."""
    until = time.monotonic() + 60
    while True:
        asked = fleet.server.run("restored", "-o", "json", check=False)  # not found before the restore begins
        rows = json.loads(asked.stdout)["clusters"] if asked.returncode == 0 else [{"state": "awaited"}]
        if all(row["state"] == "reported" for row in rows):
            return
        assert time.monotonic() < until, asked


def refused_start(server: ServerProcess) -> str:
    """Start the server, which must exit by itself; return its output."""
    before = len(server.log)
    with pytest.raises(AssertionError, match="ended with 1"):
        server.start()
    return server.log[before:]


def is_lost(server: ServerProcess) -> str:
    said = refused_start(server)
    assert "did not start" in said
    assert "rainbow server restore FILE" in said
    assert "rainbow server restore --accept-loss" in said
    return said


def test_after_a_restore_every_job_runs_once_and_no_id_is_given_twice(fleet: Fleet, tmp_path: Path) -> None:
    """At the backup jobs have ended, run, and wait; after it they end, others begin, and others are submitted."""
    server, gate, late = fleet.server, tmp_path / "gate", tmp_path / "late"
    for name in ("east", "west"):
        fleet.add(name, nodes=1, cores=2)
    over = [fleet.submit() for _ in range(2)]
    fleet.ended(*over)
    running = [fleet.submit(gate=gate) for _ in range(4)]
    fleet.until_begun(*running)
    waiting = [fleet.submit() for _ in range(4)]
    tool(server, "backup", str(tmp_path / "backup.db"))

    gate.touch()
    fleet.ended(*running, *waiting)
    since = [fleet.submit() for _ in range(2)]
    fleet.ended(*since)
    found_again = fleet.submit(gate=late)
    fleet.until_begun(found_again)
    server.kill()
    said = tool(server, "restore", str(tmp_path / "backup.db"))
    assert "reports of 2 clusters" in said.stdout
    server.start()

    jobs = {job.id: job for job in fleet.ended(*over, *running, *waiting)}
    assert {job.state for job in jobs.values()} == {"succeeded"}
    late.touch()
    [adopted] = fleet.ended(found_again)
    assert (adopted.state, adopted.exit_code) == ("succeeded", 0)
    new = fleet.submit()
    assert new > MIN_SKIPPED_IDS
    fleet.ended(new)
    everything = [*over, *running, *waiting, *since, found_again, new]
    assert fleet.tally.starts() == dict.fromkeys(everything, 1), "each ran once"
    found = restored(fleet)
    assert {row["state"] for row in found["clusters"]} == {"reported"}
    assert (found.get("jobs_waiting", 0), found.get("jobs_unclear", 0)) == (0, 0)
    kinds = {finding["job"]: finding["kind"] for finding in found["findings"]}
    assert {kinds[id] for id in since} == {"lost-job"}
    assert kinds[found_again] == "found-job"
    assert {kinds[id] for id in (*running, *waiting)} <= {"ended", "started", "adopted"}


def test_a_backup_that_is_restored_again_gives_no_id_twice(fleet: Fleet, tmp_path: Path) -> None:
    """And what was begun between two restores runs on after the second."""
    fleet.add("east", nodes=1, cores=4)
    tool(fleet.server, "backup", str(tmp_path / "backup.db"))
    gate, over, running = tmp_path / "gate", [], []
    for _ in range(3):
        over.append(fleet.submit())
        fleet.ended(over[-1])
        running.append(fleet.submit(gate=gate))
        fleet.until_begun(running[-1])
        fleet.server.kill()
        tool(fleet.server, "restore", str(tmp_path / "backup.db"))
        fleet.server.start()
    wait_until_all_reported(fleet)
    gate.touch()
    assert {job.state for job in fleet.ended(*running)} == {"succeeded"}
    kinds = {finding["job"]: finding["kind"] for finding in restored(fleet)["findings"]}
    assert kinds == dict.fromkeys(over, "lost-job") | dict.fromkeys(running, "found-job")
    assert fleet.tally.starts() == dict.fromkeys([*over, *running], 1)


def test_agents_that_were_restarted_meanwhile_tell_the_same(fleet: Fleet, tmp_path: Path) -> None:
    agent = fleet.add("east", nodes=1, cores=2)
    blocked = [fleet.submit(gate=tmp_path / "gate") for _ in range(2)]
    fleet.until_begun(*blocked)
    waiting = [fleet.submit() for _ in range(6)]
    tool(fleet.server, "backup", str(tmp_path / "backup.db"))
    (tmp_path / "gate").touch()
    fleet.ended(*blocked, *waiting)
    fleet.server.kill()
    agent.kill()
    tool(fleet.server, "restore", str(tmp_path / "backup.db"))
    fleet.server.start()
    agent.start()
    assert {job.state for job in fleet.ended(*blocked, *waiting)} == {"succeeded"}
    assert fleet.tally.starts() == dict.fromkeys([*blocked, *waiting], 1)


def test_jobs_wait_for_a_cluster_that_is_away_until_their_owner_lets_them_run(fleet: Fleet, tmp_path: Path) -> None:
    server = fleet.server
    agents = [fleet.add(name, nodes=1, cores=1) for name in ("east", "west")]
    gates = {name: tmp_path / f"{name}.gate" for name in ("east", "west")}
    blocking = [fleet.submit(name, gate=gate) for name, gate in gates.items()]
    fleet.until_begun(*blocking)
    waiting = fleet.submit()
    tool(server, "backup", str(tmp_path / "backup.db"))
    gates["east"].touch()
    assert fleet.ended(waiting)[0].cluster == "east"
    server.kill()
    for agent in agents:
        agent.kill()
    tool(server, "restore", str(tmp_path / "backup.db"))
    server.start()
    agents[1].start()
    gates["west"].touch()
    fleet.ended(blocking[1])  # west is here again, and has room
    job = fleet.client.job(waiting)
    assert (job.state, job.hold) == ("held", "restored")
    assert "it may have run since on east" in job.reason
    assert fleet.tally.starts()[waiting] == 1
    server.run("restored", "--without", "east")
    fleet.until(waiting, lambda event: "will not report" in str(event.detail.get("reason", "")))
    assert fleet.client.job(waiting).hold == "may-have-run"
    assert fleet.tally.starts()[waiting] == 1
    server.run("release", str(waiting))
    assert fleet.ended(waiting)[0].cluster == "west"
    assert fleet.tally.starts()[waiting] == 2, "its owner allowed it"


def test_a_deleted_log_is_detected_and_needs_accept_loss(tmp_path: Path) -> None:
    with a_fleet(tmp_path) as fleet:
        server, data = fleet.server, tmp_path / "data"
        fleet.add("east", nodes=1, cores=1)
        ids = [fleet.submit() for _ in range(5)]
        fleet.ended(*ids)
        server.kill()
        whole = {path.name: path.read_bytes() for path in data.glob("rainbow.db*")}
        assert whole["rainbow.db-wal"]
        (data / "rainbow.db-wal").unlink()
        said = is_lost(server)
        assert "the database has lost data" in said
        assert "rainbow.db-wal" in said
        is_lost(server)  # the refusal itself changes nothing

        for name, content in whole.items():
            (data / name).write_bytes(content)
        server.start()  # what was missing is back
        assert {job.state for job in fleet.ended(*ids)} == {"succeeded"}
        server.kill()
        (data / "rainbow.db-wal").unlink()
        is_lost(server)
        tool(server, "restore", "--accept-loss")
        server.start()
        new = fleet.submit()
        assert new > MIN_SKIPPED_IDS
        fleet.ended(new)
        assert max(fleet.tally.starts().values()) == 1


def test_a_missing_database_is_no_first_start(tmp_path: Path) -> None:
    with a_fleet(tmp_path) as fleet:
        server, data = fleet.server, tmp_path / "data"
        token = server.admin_token
        server.kill()
        (data / "rainbow.db").rename(data / "elsewhere.db")
        assert "missing or empty" in is_lost(server)
        (data / "rainbow.db").touch()
        assert "missing or empty" in is_lost(server)
        refused = tool(server, "admin-token", check=False)
        assert refused.returncode == 1
        assert "No token was created" in refused.stderr
        assert server.admin_token == token, "the token is not overwritten"
        assert os.path.getsize(data / "rainbow.db-wal") > 0, "nor is the log thrown away"
        (data / "database.mark").unlink()  # as an older version leaves it
        is_lost(server)
        tool(server, "restore", "--accept-loss")
        assert server.admin_token != token
        server.start()
        assert fleet.server.run("jobs").returncode == 0


def copied_by_hand(server: ServerProcess, to: Path) -> str:
    """Copy the data folder and the database of a stopped server, without its tools; the URL of the copy."""
    shutil.copytree(server.folder / "data", to)
    if not server.db:
        return ""
    base, _, name = server.db.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")  # type: ignore[arg-type]
    return f"{base}/{name}_copy"


def test_a_restore_that_an_agent_begins_outlives_the_server(fleet: Fleet, tmp_path: Path) -> None:
    """Database and data folder were put back together by hand, so the server starts, and an agent knows better."""
    server, data = fleet.server, fleet.server.folder / "data"
    agents = [fleet.add(name, nodes=1, cores=1) for name in ("east", "west")]
    before = [fleet.submit(agent.cluster) for agent in agents]
    fleet.ended(*before)
    assert server.stop() == 0
    url = copied_by_hand(server, tmp_path / "copy")
    server.start()
    since = [fleet.submit(agent.cluster) for agent in agents]
    fleet.ended(*since)
    server.kill()
    shutil.rmtree(data)
    (tmp_path / "copy").rename(data)
    server.db = url
    server.start()
    wait_until_all_reported(fleet)
    new = []
    for end in (server.kill, server.stop):  # no later start takes what the agents have begun for a loss
        new.append(fleet.submit())
        fleet.ended(new[-1])
        end()
        server.start()
    assert min(new) > MIN_SKIPPED_IDS
    assert {finding["job"] for finding in restored(fleet)["findings"]} == set(since)
    assert fleet.tally.starts() == dict.fromkeys([*before, *since, *new], 1)


def test_an_emptied_or_exchanged_postgres_is_noticed(tmp_path: Path, postgres: Postgres) -> None:
    with a_fleet(tmp_path, db=postgres.new_database()) as fleet:
        server = fleet.server
        fleet.add("east")
        fleet.ended(fleet.submit())
        assert server.stop() == 0
        own, server.db = server.db, postgres.new_database()
        assert "is empty" in is_lost(server)
        token = server.admin_token
        assert "No token was created" in tool(server, "admin-token", check=False).stderr
        assert server.admin_token == token, "the token is not overwritten"
        (tmp_path / "data/database.mark").rename(tmp_path / "mark")
        assert "administrator" in is_lost(server), "also beside the folder of an older version"
        (tmp_path / "mark").rename(tmp_path / "data/database.mark")
        server.db = own
        with psycopg.connect(own) as connection:  # as a copy that was made a moment before the end
            connection.execute("UPDATE counters SET value = value - 1 WHERE name = 'event'")
        assert "ends at event" in is_lost(server)
        tool(server, "restore", "--accept-loss")
        server.start()
        fleet.ended(fleet.submit())


def test_a_server_that_runs_keeps_its_database(fleet: Fleet, tmp_path: Path) -> None:
    tool(fleet.server, "backup", str(tmp_path / "backup.db"))
    for arguments in (["restore", str(tmp_path / "backup.db")], ["restore", "--accept-loss"]):
        refused = tool(fleet.server, *arguments, check=False)
        assert refused.returncode == 6
        assert "stop that server first" in refused.stderr
    fleet.server.run("jobs")
    assert fleet.server.stop() == 0
    damaged = (tmp_path / "backup.db").read_bytes()[:9000]
    (tmp_path / "damaged.db").write_bytes(damaged)
    refused = tool(fleet.server, "restore", str(tmp_path / "damaged.db"), check=False)
    assert refused.returncode == 1
    assert "damaged" in refused.stderr
    fleet.server.start()  # nothing has changed
