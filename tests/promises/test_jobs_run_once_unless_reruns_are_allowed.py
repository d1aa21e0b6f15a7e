"""Further runs, with real processes: `--retries` after known failures, `--rerun` after unknown outcomes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends.local.wrapper import start_time
from rainbow_sched.client.jobs import JobInfo
from tests.support.fleet import Fleet, a_fleet
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)
QUICK = "scheduler: {timing: {heartbeat: 1, silent_after: 1, long_poll: 1, lease: 3}}"
# A server that lets a job ask for a --lost-after of seconds. Operators cannot set this; all else is as they get it.
SHORT = """
from rainbow_sched.service.settings import Settings
Settings.__init__.__kwdefaults__["shortest_lost_after"] = 1.0
from rainbow_sched.cli.main import main
main()
"""
LOST_AFTER = 12  # the guard acts after 8 seconds; with --mem the runner looks twice a second
# Each run notes its process; the Nth does what the Nth argument after the folder says: an exit code, or `stay`.
# Runs are counted, not attempts: on a busy machine an offer may lapse.
_SCRIPT = """
over="$1/over"
note="$1/run.$RAINBOW_JOB_ID.$RAINBOW_ATTEMPT.$RAINBOW_CLUSTER"
echo $$ > "$note.new"
mv "$note.new" "$note"
set -- "$(ls -d "$1/run.$RAINBOW_JOB_ID".* | wc -l)" "$@"
echo begun
shift "$(($1 + 1))"
if [ "$1" = stay ]; then until [ -e "$over" ]; do sleep 0.1; done; fi
exit "$1"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two clusters; jobs go to east as long as it takes them."""
    with a_fleet(tmp_path, config=QUICK, program=(sys.executable, "-c", SHORT)) as running:
        for name in ("east", "west"):
            running.add(name, memory=1024)
        try:
            yield running
        finally:
            (tmp_path / "over").touch()  # ends the runs that a failed test left behind


def submit(fleet: Fleet, *options: str, does: tuple[str, ...]) -> int:
    """Submit a job on the command line; return its id."""
    command = ("--", "/bin/sh", "-c", _SCRIPT, "job", str(fleet.server.folder), *does)
    where = ("-M", "east,west", "--select", "first:order=east,west", "--mem", "64M")
    return int(fleet.server.run("submit", *where, *options, "-o", "name", *command).stdout)


def runs(fleet: Fleet, id: int) -> list[tuple[str, int]]:
    """Return the cluster and the process of each run, in order."""
    found = [path for path in fleet.server.folder.glob(f"run.{id}.*") if path.suffix != ".new"]
    found.sort(key=lambda path: int(path.name.split(".")[2]))
    return [(path.suffix[1:], int(path.read_text())) for path in found]


def ended(fleet: Fleet, id: int) -> JobInfo:
    return fleet.ended(id)[0]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_run_that_is_lost_runs_again_by_rerun_and_not_by_retries(fleet: Fleet, fault: signal.Signals) -> None:
    lost_after = ("--lost-after", str(LOST_AFTER))
    rerun = submit(fleet, "--rerun", *lost_after, does=("stay", "0"))
    retried = submit(fleet, "--retries", "2", *lost_after, does=("stay", "0"))
    fleet.until_begun(rerun, retried)
    east = fleet.agents["east"]
    east.send(fault)
    job, failed = ended(fleet, rerun), ended(fleet, retried)
    assert (job.state, job.cluster) == ("succeeded", "west")
    assert (failed.state, failed.failure) == ("failed", "lost")
    assert clusters(fleet, rerun) == ["east", "west"]
    for id in (rerun, retried):
        until(lambda id=id: start_time(runs(fleet, id)[0][1]) is None, "the end of the first run by its guard")
    if fault is signal.SIGSTOP:
        east.send(signal.SIGCONT)
    else:
        east.process.wait()
        east.start()
    after = submit(fleet, does=("0",))
    until(lambda: fleet.client.cluster("east").standing == "active", "east takes work again")
    assert ended(fleet, after).state == "succeeded"
    assert {id: len(runs(fleet, id)) for id in (rerun, retried)} == {rerun: 2, retried: 1}
    assert (ended(fleet, rerun).state, ended(fleet, retried).state) == ("succeeded", "failed")


def test_a_known_failure_is_run_again_by_retries_and_not_by_rerun(fleet: Fleet) -> None:
    fails = ("1", "1", "1", "1", "1")
    expected = {
        submit(fleet, does=fails): 1,
        submit(fleet, "--rerun", does=fails): 1,
        submit(fleet, "--rerun=5", does=fails): 1,
        submit(fleet, "--retries", "2", does=fails): 3,
        submit(fleet, "--rerun", "--retries", "1", does=fails): 2,
        submit(fleet, "--retries", "3", does=("1", "0")): 2,
    }
    jobs = {job.id: job for job in fleet.ended(*expected)}
    assert {id: len(runs(fleet, id)) for id in expected} == expected
    assert [job.state for job in jobs.values()] == ["failed"] * 5 + ["succeeded"]
    assert {job.exit_code for job in jobs.values() if job.state == "failed"} == {1}


def test_a_run_with_an_unknown_outcome_is_repeated_by_rerun_and_not_by_retries(fleet: Fleet) -> None:
    rerun = submit(fleet, "--rerun=1", does=("stay", "stay", "0"))
    retried = submit(fleet, "--retries", "2", does=("stay", "0"))
    fleet.until_begun(rerun, retried)
    kill_runner(fleet, rerun)
    kill_runner(fleet, retried)
    until(lambda: len(runs(fleet, rerun)) == 2, "the second run")
    kill_runner(fleet, rerun)
    jobs = fleet.ended(rerun, retried)
    assert [(job.state, job.failure) for job in jobs] == [("failed", "outcome-unknown")] * 2
    assert [len(runs(fleet, id)) for id in (rerun, retried)] == [2, 1]
    story = fleet.server.run("explain", str(rerun), "-v").stdout
    assert "counted=rerun 1 of 1" in story
    assert "counted=1 of 1 reruns used" in story


def clusters(fleet: Fleet, id: int) -> list[str]:
    return [cluster for cluster, _ in runs(fleet, id)]


def kill_runner(fleet: Fleet, id: int) -> None:
    """Kill the process that supervises the last run, so that its outcome is unknown."""
    process = runs(fleet, id)[-1][1]
    parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)


def test_a_job_that_an_older_server_stored_goes_on_with_its_terms(fleet: Fleet) -> None:
    both = submit(fleet, "--rerun", "--retries", "2", "--lost-after", str(LOST_AFTER), does=("stay", "1", "0"))
    once = submit(fleet, "--retries", "2", does=("stay", "0"))
    fleet.until_begun(both, once)
    fleet.server.stop()
    as_it_was_before_reruns(fleet.server.folder / "data/rainbow.db")
    fleet.server.start()
    terms = fleet.client.job(both).terms
    assert (terms["delivery"], terms["retries"], terms["reruns"]) == ("at-least-once", 2, 9)
    os.kill(runs(fleet, once)[0][1], signal.SIGTERM)
    failed = ended(fleet, once)
    assert (failed.state, failed.failure) == ("failed", "exit")
    assert len(runs(fleet, once)) == 1, "at most once, as it was promised"
    fleet.agents["east"].kill()
    job = ended(fleet, both)
    assert job.state == "succeeded"
    assert clusters(fleet, both) == ["east", "west", "west"]


def as_it_was_before_reruns(path: Path) -> None:
    """Take everything out of a database that came with migration 9 and later ones."""
    with sqlite3.connect(path) as db:
        for id, text in db.execute("SELECT id, terms FROM jobs").fetchall():
            terms = json.loads(text)
            terms.pop("reruns", None)
            db.execute("UPDATE jobs SET terms = ? WHERE id = ?", (json.dumps(terms), id))
        db.execute("DROP TABLE unsettled_jobs")
        added = {
            "jobs": ("reruns_used",),
            "clusters": ("node_rules", "wrong_nodes"),
            "attempts": ("nodes", "code"),
            "users": ("rights",),
            "cluster_groups": ("rights",),
            "credentials": ("ends_at", "replaces", "renewal_asked"),
        }
        for table, columns in added.items():
            for column in columns:
                db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("DELETE FROM schema_versions WHERE version >= 9")
    db.close()
