"""Two real Slurm clusters and a plain machine, each with its agent, behind one real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.house import RAINBOW, House, a_house
from tests.support.slurm import Nodes, SlurmCluster, running

SECONDS = 60.0
OTHER_MODULES = ("LMOD_CMD", "MODULES_CMD")


class Fleet:
    """The server, the clusters, and an agent for each."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.clusters: dict[str, SlurmCluster] = {}
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start_agent(self, name: str) -> None:
        """Start, or start again, the agent of a cluster."""
        words = ["agent", "--cluster", name, "--register", "auto", "--state-dir", str(self.folder / name)]
        if name in self.clusters:
            conf = f"conf={self.clusters[name].conf}"
            words += ["--backend", "slurm", "-O", conf, "-O", "interval=0.5", "-O", "facts_interval=0.5"]
        else:
            words += ["--rediscover", "0.5"]
        if os.geteuid() == 0:
            words.append("--run-as-root")
        own = {"RAINBOW_SERVER": self.house.address, "MODULEPATH": str(self.folder / "modules")}
        environment = {
            name: value for name, value in self.house.environment().items() if name not in OTHER_MODULES
        } | own
        with (self.folder / f"{name}.log").open("ab") as log:
            self._agents[name] = subprocess.Popen(
                [*RAINBOW, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill_agent(self, name: str) -> None:
        """As a power cut would."""
        self._agents[name].kill()
        self._agents[name].wait()

    def stop(self) -> None:
        """End all agents."""
        for process in self._agents.values():
            process.terminate()
        for process in self._agents.values():
            process.wait(20)

    def submit(self, *words: str) -> str:
        """Submit and return the id."""
        return self.house.run("submit", "-o", "name", *words).stdout.split()[0]

    def job(self, id: str) -> dict[str, object]:
        """The job as `rainbow jobs` shows it."""
        return json.loads(self.house.run("jobs", "-a", "-o", "json", id).stdout)["jobs"][0]

    def until(self, told: Callable[[], bool], what: str) -> None:
        """Wait for something that only asking tells."""
        deadline = time.monotonic() + SECONDS
        while not told():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))
                raise AssertionError(f"{what} did not come in {SECONDS:g} s\n{logs}")
            time.sleep(0.1)


@pytest.fixture(scope="module")
def wide() -> Iterator[SlurmCluster]:
    """A second cluster: fewer nodes, but more cores on each."""
    yield from running(SlurmCluster("wide", [Nodes(prefix="w", count=2, cpus=12, memory=4000)]))


@pytest.fixture(scope="module")
def fleet(rich: SlurmCluster, wide: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with a_house(folder) as house:
        made = Fleet(house, folder)
        made.clusters = {"rich": rich, "wide": wide}
        try:
            for name in ("rich", "wide", "here"):
                made.start_agent(name)
            made.until(lambda: active(made) >= {"rich", "wide", "here"}, "the registration of all clusters")
            yield made
        finally:
            made.stop()


def active(fleet: Fleet) -> set[str]:
    listed = json.loads(fleet.house.run("clusters", "-o", "json").stdout)["clusters"]
    return {row["name"] for row in listed if row["standing"] == "active"}


@pytest.mark.timeout(180)
def test_jobs_land_where_they_fit_and_bring_back_output_and_exit_codes(fleet: Fleet):
    show = "echo $SLURM_CLUSTER_NAME $SLURMD_NODENAME; exit $CODE"
    gpu = fleet.house.run("run", "-g1", "--env", "CODE=3", "--", "sh", "-c", show, check=False)
    wide = fleet.house.run("run", "-c10", "--env", "CODE=0", "--", "sh", "-c", show)
    here = fleet.house.run("run", "-M", "here", "--", "sh", "-c", "echo here:$SLURM_CLUSTER_NAME")
    assert (gpu.returncode, gpu.stdout.split()[0]) == (3, "rich")
    assert wide.stdout.split()[0] == "wide"
    assert here.stdout.split() == ["here:"]
    explained = fleet.house.run("plan", "-g1", "--", "true").stdout
    assert "gpu" in explained.split("wide", 1)[1]


@pytest.mark.timeout(180)
def test_a_job_is_cancelled_while_it_runs_and_while_it_waits(fleet: Fleet):
    running_one = fleet.submit("-M", "wide", "-N2", "--exclusive", "-n2", "-t", "10m", "--", "sleep", "300")
    fleet.until(lambda: fleet.job(running_one).get("attempt_state") == "running", "the first job's start")
    waiting = fleet.submit("-M", "wide", "-N2", "-n2", "-c8", "-t", "10m", "--", "sleep", "300")
    fleet.house.run("cancel", waiting, running_one)
    for id in (waiting, running_one):
        fleet.until(lambda id=id: fleet.job(id)["state"] == "cancelled", f"the end of job {id}")
    fleet.until(lambda: not fleet.clusters["wide"].call("squeue", "-h").strip(), "an empty queue")


@pytest.mark.timeout(180)
def test_a_job_whose_files_are_lost_is_found_by_its_tag(fleet: Fleet, tmp_path: Path):
    """Without a record a poll leaves the job out; the agent looks its tag up, and reports its end."""
    gate = tmp_path / "go"
    until_gate = f"while [ ! -e {gate} ]; do sleep 0.1; done; exit 4"
    id = fleet.submit("-M", "wide", "-t", "5m", "--", "sh", "-c", until_gate)
    fleet.until(lambda: fleet.job(id).get("attempt_state") == "running", "the start")
    fleet.kill_agent("wide")
    (files,) = (fleet.folder / "wide").rglob(f"rb-{id}-1")
    shutil.rmtree(files)
    fleet.start_agent("wide")
    gate.touch()
    fleet.until(lambda: fleet.job(id)["state"] in ("succeeded", "failed"), "the end")
    assert (fleet.job(id)["state"], fleet.job(id).get("exit_code")) == ("failed", 4)


@pytest.mark.timeout(240)
def test_jobs_run_once_however_often_the_agent_dies(fleet: Fleet, tmp_path: Path):
    note = f"echo $RAINBOW_JOB_ID >> {tmp_path}/ran"
    ids = []
    for pause in (0.0, 0.05, 0.3, 0.8):
        ids += [fleet.submit("-M", "rich", "-t", "5m", "--", "sh", "-c", f"{note}; sleep 1") for _ in range(2)]
        time.sleep(pause)  # dies at another point of the hand-over each time
        fleet.kill_agent("rich")
        fleet.start_agent("rich")
    fleet.house.run("wait", *ids, "--timeout", "90s", timeout=100)
    assert [fleet.job(id)["state"] for id in ids] == ["succeeded"] * len(ids)
    assert sorted((tmp_path / "ran").read_text().split(), key=int) == sorted(ids, key=int)


@pytest.mark.timeout(240)
def test_a_stopped_controller_declares_nothing_dead(fleet: Fleet, tmp_path: Path):
    gate = tmp_path / "go"
    id = fleet.submit("-M", "wide", "--", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.1; done; exit 7")
    fleet.until(lambda: fleet.job(id).get("attempt_state") == "running", "the job's start")
    fleet.clusters["wide"].stop_controller()
    log = fleet.folder / "wide.log"
    fleet.until(lambda: "cannot be asked" in log.read_text(), "the agent's notice of it")
    gate.touch()
    assert fleet.job(id).get("attempt_state") == "running"
    fleet.clusters["wide"].start_controller()
    assert fleet.house.run("wait", id, "--timeout", "90s", check=False, timeout=100).returncode == 7


@pytest.mark.timeout(180)
def test_a_drained_node_is_no_longer_matched_and_comes_back(fleet: Fleet):
    slurm, words = fleet.clusters["wide"], ("plan", "-M", "wide", "-N2", "-n2", "--", "true")

    def answers(code: int) -> bool:
        return fleet.house.run(*words, check=False).returncode == code

    fleet.until(lambda: answers(0), "room for two nodes")
    slurm.call("scontrol", "update", "nodename=w1", "state=drain", "reason=test")
    fleet.until(lambda: answers(75), "the drained node's absence")
    slurm.call("scontrol", "update", "nodename=w1", "state=resume")
    fleet.until(lambda: answers(0), "the node's return")


@pytest.mark.timeout(240)
def test_a_cluster_that_grows_and_shrinks_is_known_by_its_new_shape_and_what_runs_goes_on(fleet: Fleet, tmp_path: Path):
    slurm, before = fleet.clusters["wide"], fleet.clusters["wide"].nodes
    gate, three = tmp_path / "go", ("plan", "-M", "wide", "-N3", "-n3", "--", "true")
    script = tmp_path / "fresh.sh"
    script.write_text("#!/bin/sh\n#SBATCH --constraint=fresh\necho $SLURMD_NODENAME\n")
    id = fleet.submit("-M", "wide", "--", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.1; done; exit 6")
    fleet.until(lambda: fleet.job(id).get("attempt_state") == "running", "the job's start")
    assert fleet.house.run(*three, check=False).returncode == 3
    slurm.rebuild([*before, Nodes(prefix="x", count=1, cpus=4, features=("fresh",))])
    fleet.until(lambda: fleet.house.run(*three, check=False).returncode == 0, "the third node")
    said = fleet.house.run("run", "-M", "wide", str(script))
    assert said.stdout.split() == ["x1"]
    slurm.rebuild(before)
    fleet.until(lambda: fleet.house.run(*three, check=False).returncode == 3, "the third node's going")
    assert fleet.job(id).get("attempt_state") == "running"
    gate.touch()
    assert fleet.house.run("wait", id, "--timeout", "90s", check=False, timeout=100).returncode == 6


@pytest.mark.timeout(120)
def test_software_that_is_installed_while_the_agent_runs_can_be_asked_for(fleet: Fleet):
    words = ("plan", "-M", "here", "--software", "aurora@3:", "--", "true")
    assert fleet.house.run(*words, check=False).returncode == 3
    (fleet.folder / "modules" / "aurora").mkdir(parents=True)
    (fleet.folder / "modules" / "aurora" / "3.2").write_text("#%Module\n")
    fleet.until(lambda: fleet.house.run(*words, check=False).returncode == 0, "the new software")
