"""Clusters are registered, drained and deleted while jobs run on them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.fleet import Agent, Fleet, a_fleet

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with a_fleet(tmp_path_factory.mktemp("clusters")) as running:
        yield running


def _ready(fleet: Fleet, *names: str) -> None:
    """Return when the agents have run a job each."""
    assert {job.state for job in fleet.ended(*(fleet.submit(name) for name in names))} == {"succeeded"}


def test_a_drained_cluster_finishes_what_it_runs_and_gets_nothing_new(fleet: Fleet) -> None:
    gate = fleet.server.folder / "drain-gate"
    for name in ("d1", "d2"):
        fleet.add(name)
    _ready(fleet, "d1", "d2")
    running = [fleet.submit("d1", gate=gate) for _ in range(3)]
    fleet.until_running(*running)
    fleet.server.run("drain", "d1", "-m", "maintenance at noon")
    shown = {c["name"]: c for c in json.loads(fleet.server.run("clusters", "-o", "json").stdout)["clusters"]}
    assert shown["d1"]["standing"] in ("draining", "drained", "cordoned")
    assert shown["d1"]["reason"] == "maintenance at noon"
    elsewhere = [fleet.submit(only_clusters=("d1", "d2")) for _ in range(6)]
    waits = fleet.submit("d1")
    assert {job.cluster for job in fleet.ended(*elsewhere)} == {"d2"}
    assert fleet.client.job(waits).state in ("held", "queued")
    assert fleet.tally.starts()[waits] == 0
    gate.touch()
    assert {job.state for job in fleet.ended(*running)} == {"succeeded"}
    fleet.server.run("undrain", "d1")
    assert fleet.ended(waits)[0].state == "succeeded"


def test_a_deleted_clusters_waiting_jobs_go_elsewhere_and_its_running_ones_are_lost(fleet: Fleet) -> None:
    for name in ("gone", "stays"):
        fleet.add(name, "--max-jobs", "2")
    _ready(fleet, "gone", "stays")
    gate = fleet.server.folder / "gone-gate"
    running = [fleet.submit("gone", gate=gate) for _ in range(2)]
    fleet.until_begun(*running)
    with fleet.agents["stays"].paused():  # so that it is busy enough to leave some work to the other
        moves = [fleet.submit(only_clusters=("gone", "stays"), policy="first") for _ in range(6)]
        assert {fleet.client.job(id).cluster for id in moves} == {"gone"}
        refused = fleet.server.run("delete", "--cluster-name", "gone", check=False)
        assert "2 jobs run on gone" in refused.stderr
        assert "--jobs cancel" in refused.stderr
        fleet.server.run("delete", "--cluster-name", "gone", "--jobs", "lose")
    jobs = fleet.ended(*running)
    assert [(job.state, job.reason) for job in jobs] == [("failed", "cluster gone was removed while it ran")] * 2
    assert {(job.cluster, job.state) for job in fleet.ended(*moves)} == {("stays", "succeeded")}
    starts = fleet.tally.starts()
    assert [starts[id] for id in moves] == [1] * len(moves)
    print(f"a cluster deleted with 2 jobs running and {len(moves)} waiting: 0 of these lost, 0 doubled")
    # What they wrote until then can still be read and followed.
    assert fleet.output(running[0]) == f"out {running[0]}\n".encode()
    assert fleet.server.run("logs", "-f", str(running[1])).stdout == f"out {running[1]}\n"
    fleet.agents["gone"].kill()
    gate.touch()


def test_a_clusters_own_filter_hands_jobs_on(fleet: Fleet) -> None:
    fleet.add("bio", "--accept", 'labels.team == "bio" && nodes <= 1')
    fleet.add("open")
    _ready(fleet, "open")
    both = ("bio", "open")
    ours = [fleet.submit(only_clusters=both, policy="first", labels={"team": "bio"}) for _ in range(3)]
    others = [fleet.submit(only_clusters=both, policy="first", labels={"team": "physics"}) for _ in range(3)]
    others.append(fleet.submit(only_clusters=both, policy="first"))
    assert {job.cluster for job in fleet.ended(*ours)} == {"bio"}
    jobs = fleet.ended(*others)
    assert {(job.cluster, job.state, job.attempt) for job in jobs} == {("open", "succeeded", 2)}
    handed = [e for e in fleet.until(others[0], lambda e: e.last) if e.detail.get("why") == "returned"]
    assert "labels.team" in str(handed[0].detail["reason"])


def test_a_cluster_runs_only_for_those_it_allows(fleet: Fleet) -> None:
    fleet.add("picky", "--allow", "nobody-we-know")
    fleet.add("kind")
    _ready(fleet, "kind")
    id = fleet.submit(only_clusters=("picky", "kind"), not_clusters=("kind",))
    fleet.until(id, lambda event: event.detail.get("why") == "returned")
    assert fleet.tally.starts()[id] == 0
    assert fleet.client.cancel([id])[0].state == "cancelled"


def test_a_second_agent_with_the_same_credential_is_refused_in_plain_words(fleet: Fleet) -> None:
    first = fleet.add("one")
    _ready(fleet, "one")
    at = first.arguments.index("--state-dir") + 1
    twin = Agent("one-twin", fleet.server.folder, list(first.arguments), first.environment)
    twin.start()  # the same state directory
    assert twin.process is not None
    assert twin.process.wait(20) != 0
    assert "another agent (process" in twin.log
    other = Agent("one-other", fleet.server.folder, list(first.arguments), first.environment)
    other.arguments[at] += ".other"
    other.start()  # a directory of its own, the same credential
    assert other.process is not None
    id = fleet.submit("one", seconds=1)
    assert other.process.wait(40) == 1
    assert "another agent of cluster 'one' is connected" in other.log
    assert "Traceback" not in twin.log + other.log
    counts = fleet.counts({id: 0})
    print(f"two agents with one credential: {counts}")
    counts.check()
    first.lives(0.01)
