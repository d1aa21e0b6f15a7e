"""The life of real jobs: cancelled at every stage, held, timed, ordered, in arrays, and one after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rainbow_sched.model.job import Delivery
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.calls import Calls
from tests.support.fleet import Fleet, a_fleet

pytestmark = pytest.mark.timeout(120)
NEVER = Path("a-gate-that-never-opens")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two clusters with agents, and one without."""
    with a_fleet(tmp_path_factory.mktemp("life")) as running:
        for name in ("east", "west"):
            running.add(name)
        running.add("lane", "--max-jobs", "1", nodes=1, cores=1)
        running.add("mute", started=False)
        running.ended(*(running.submit(name) for name in ("east", "west", "lane")))  # all are in touch
        yield running


def test_a_job_cancelled_while_it_waits_never_starts(fleet: Fleet) -> None:
    nothing_fits, offered, held = fleet.submit(nodes=99), fleet.submit("mute"), fleet.submit("east", hold=True)
    assert fleet.client.job(offered).attempt_state == "offered"
    jobs = fleet.client.cancel([nothing_fits, offered, held], reason="a mistake")
    assert [(job.state, job.reason) for job in jobs] == [("cancelled", "a mistake")] * 3
    assert [fleet.tally.starts()[job.id] for job in jobs] == [0, 0, 0]


def test_a_job_cancelled_during_bidding_never_starts(fleet: Fleet) -> None:
    agent = fleet.agents["west"]
    with agent.paused():
        id = fleet.submit("west")
        fleet.until(id, lambda event: event.detail.get("attempt") == "leased")
        assert fleet.client.cancel([id])[0].state == "cancelled"
    after = fleet.submit("west")
    assert fleet.ended(after)[0].state == "succeeded"
    assert fleet.tally.starts()[id] == 0
    assert fleet.ended(id)[0].state == "cancelled"


def test_a_running_job_is_cancelled_when_its_cluster_says_so_and_its_processes_are_gone(fleet: Fleet) -> None:
    id = fleet.submit("east", gate=NEVER)
    fleet.until_begun(id)
    agent = fleet.agents["east"]
    with agent.paused():
        assert fleet.client.cancel([id], reason="enough")[0].state == "cancelling"
        assert fleet.client.job(id).state == "cancelling"
    [job] = fleet.ended(id)
    assert (job.state, job.reason) == ("cancelled", "enough")
    assert (fleet.tally.starts()[id], fleet.tally.ends()[id]) == (1, 0)
    assert fleet.output(id) == f"out {id}\n".encode()


def test_what_finished_before_the_cancel_has_finished(fleet: Fleet) -> None:
    id = fleet.submit("east", code=3)
    fleet.ended(id)
    [job] = fleet.client.cancel([id])
    assert (job.state, job.exit_code) == ("failed", 3)


def test_a_filter_cancels_what_it_finds_and_nothing_else(fleet: Fleet) -> None:
    gate = fleet.server.folder / "filter-gate"
    ours = [fleet.submit("east", gate=NEVER, labels={"team": "bio"}) for _ in range(3)]
    ours.append(fleet.submit("mute", labels={"team": "bio"}))
    other = fleet.submit("east", gate=gate, labels={"team": "physics"})
    fleet.until_running(*ours[:3], other)
    with fleet.server.channel() as channel:
        calls = Calls(channel, fleet.server.admin_token)
        wanted = jobs_pb2.JobFilter(labels={"team": "bio"})
        dry = calls.jobs.Cancel(jobs_pb2.CancelRequest(filter=wanted, dry_run=True), metadata=calls.who)
        assert sorted(job.id for job in dry.jobs) == ours
        assert {job.state for job in dry.jobs} == {"bound"}
        calls.jobs.Cancel(jobs_pb2.CancelRequest(filter=wanted), metadata=calls.who)
    assert {job.state for job in fleet.ended(*ours)} == {"cancelled"}
    gate.touch()
    assert fleet.ended(other)[0].state == "succeeded"


def test_the_command_cancels_by_name_range_and_filter(fleet: Fleet) -> None:
    ids = [fleet.submit("mute", name="of-many") for _ in range(4)]
    said = fleet.server.run("cancel", "-n", "--filter", "pending", "-M", "mute", "-o", "json").stdout
    assert {job["id"] for job in json.loads(said)["jobs"]} >= set(ids)
    fleet.server.run("cancel", f"{ids[0]}-{ids[1]}", "-m", "no more")
    fleet.server.run("cancel", "of-many")
    states = {job.id: job.state for job in fleet.ended(*ids)}
    assert states == dict.fromkeys(ids, "cancelled")


def test_a_held_job_starts_when_it_is_released(fleet: Fleet) -> None:
    id = fleet.submit("east", hold=True)
    fleet.ended(fleet.submit("east"))  # one that came later is through
    assert (fleet.client.job(id).state, fleet.tally.starts()[id]) == ("held", 0)
    fleet.server.run("release", str(id))
    assert fleet.ended(id)[0].state == "succeeded"


def test_a_job_does_not_start_before_its_time(fleet: Fleet) -> None:
    begin = time.time() + 1.5
    id = fleet.submit("east", start_after=begin)
    assert fleet.client.job(id).state == "held"
    [job] = fleet.ended(id)
    assert job.state == "succeeded"
    assert job.started_at is not None
    assert job.started_at >= begin


def test_a_deadline_ends_what_waits_and_what_runs(fleet: Fleet) -> None:
    at = time.time() + 2.5
    waits, runs = fleet.submit("mute", deadline=at), fleet.submit("east", gate=NEVER, deadline=at)
    fleet.until_running(runs)
    jobs = fleet.ended(waits, runs)
    assert [job.state for job in jobs] == ["expired", "expired"]
    assert all("deadline" in job.reason for job in jobs)
    assert (fleet.tally.starts()[waits], fleet.tally.ends()[runs]) == (0, 0)


def test_a_time_limit_ends_a_job_and_the_command_says_124(fleet: Fleet) -> None:
    done = fleet.server.run("run", "-M", "east", "-t", "1s", "--", "sleep", "60", check=False)
    assert done.returncode == 124, done.stderr
    job = fleet.client.jobs(limit=1)[0]
    assert (job.state, job.failure) == ("failed", "time-limit")


def test_the_higher_priority_goes_first(fleet: Fleet) -> None:
    gate = fleet.server.folder / "lane-gate"
    first = fleet.submit("lane", gate=gate, seconds=0)
    fleet.until_running(first)
    waiting = {fleet.submit("lane", seconds=0, priority=priority): priority for priority in (1, 5, 0, 3, 5)}
    gate.touch()
    fleet.ended(*waiting)
    order = [id for id in fleet.tally.starts() if id in waiting]  # a Counter keeps the order of the file
    assert order == sorted(waiting, key=lambda id: (-waiting[id], id))


def test_an_array_is_one_submission_and_every_member_runs_once_with_its_index(fleet: Fleet) -> None:
    out = fleet.server.folder / "indices"
    script = f'echo "$RAINBOW_ARRAY_INDEX" >> {out}; exit $((RAINBOW_ARRAY_INDEX == 5))'
    done = fleet.server.run(
        "submit", "-M", "east,west", "--array", "1-9:2", "-o", "json", "--", "/bin/sh", "-c", script
    )
    answer = json.loads(done.stdout)
    first = answer["id"]
    waited = fleet.server.run("wait", f"{first}-{first + 4}", check=False)
    assert waited.returncode == 1
    assert sorted(out.read_text().split(), key=int) == ["1", "3", "5", "7", "9"]
    members = fleet.ended(*range(first, first + 5))
    assert [job.exit_code for job in members] == [0, 0, 1, 0, 0]


def test_a_dependency_holds_across_clusters(fleet: Fleet) -> None:
    gate = fleet.server.folder / "dependency-gate"
    good = fleet.submit("east", gate=gate)
    bad = fleet.submit("west", gate=gate, code=4)
    wanted = {
        fleet.submit("west", dependencies=(f"afterok:{good}",)): "succeeded",
        fleet.submit("east", dependencies=(f"afternotok:{bad}",)): "succeeded",
        fleet.submit("east", dependencies=(f"afterany:{bad}", f"afterany:{good}")): "succeeded",
        fleet.submit("west", dependencies=(f"after:{good}",)): "succeeded",
    }
    never = [
        fleet.submit("east", dependencies=(f"afterok:{bad}",)),
        fleet.submit("west", dependencies=(f"afternotok:{good}",)),
    ]
    assert {fleet.client.job(id).state for id in [*list(wanted)[:3], *never]} == {"held"}
    gate.touch()
    assert {job.id: job.state for job in fleet.ended(*wanted)} == wanted
    for job in fleet.ended(*never):
        assert "cannot be met" in job.reason
        assert fleet.tally.starts()[job.id] == 0
    ended = {job.id: job.ended_at for job in fleet.ended(good, bad)}
    dependent = fleet.ended(*list(wanted)[:1])[0]
    assert (dependent.started_at or 0) >= (ended[good] or 0)


def test_a_job_that_fails_is_run_again_as_often_as_it_has_retries(fleet: Fleet) -> None:
    expected = {
        fleet.submit("east", code=1, retries=2, delivery=Delivery.AT_LEAST_ONCE): 3,
        fleet.submit("east", code=1, retries=2): 3,
        fleet.submit("east", code=1, delivery=Delivery.AT_LEAST_ONCE): 1,
        fleet.submit("east", code=1, reruns=2): 1,
    }
    jobs = fleet.ended(*expected)
    assert [(job.state, job.exit_code) for job in jobs] == [("failed", 1)] * 4
    starts = fleet.tally.starts()
    assert {id: starts[id] for id in expected} == expected
