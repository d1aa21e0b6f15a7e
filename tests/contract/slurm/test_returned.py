"""A job that Slurm took and lost before it began, through a real server, agent and controller: it goes back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server_process import RAINBOW, ServerProcess, a_server_process
from tests.support.slurm import Nodes, SlurmCluster, running
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def forgetful() -> Iterator[SlurmCluster]:
    """A cluster of this test's own: its controller is killed."""
    yield from running(SlurmCluster("forgetful", [Nodes(count=1, cpus=2, memory=1000)]))


@contextmanager
def an_agent(server: ServerProcess, slurm: SlurmCluster) -> Iterator[Path]:
    """An agent of the cluster; its log."""
    log = server.folder / "agent.log"
    words = ["agent", "--cluster", "slow", "--register", "auto", "--state-dir", str(server.folder / "slow")]
    words += ["--backend", "slurm", "-O", f"conf={slurm.conf}", "-O", "interval=0.3"]
    words += ["-O", "facts_interval=300"]  # the server does not hear of the drained node, and sends the job
    words += ["--run-as-root"] if os.geteuid() == 0 else []
    environment = server.environment() | {"RAINBOW_SERVER": server.address}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*RAINBOW, *words], env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def job(server: ServerProcess, id: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(server.run("jobs", "-a", "-o", "json", id).stdout)["jobs"][0]
    return found


def returns(server: ServerProcess, id: str) -> list[dict[str, object]]:
    told = json.loads(server.run("explain", id, "-o", "json").stdout)
    return [event["detail"] for event in told["events"] if event["kind"] == "unbound"]


def test_a_job_that_a_killed_controller_forgot_goes_back_and_its_cluster_goes_on(
    forgetful: SlurmCluster, tmp_path: Path
) -> None:
    with a_server_process(tmp_path) as server, an_agent(server, forgetful) as log:
        shown = ("clusters", "slow")
        until(
            lambda: "cores_free" in server.run(*shown, check=False).stdout,
            "the first word of what is free",
            90.0,
            log.read_text,
        )
        forgetful.call("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
        id = server.run("submit", "-o", "name", "-n1", "-t", "5m", "--", "true").stdout.split()[0]
        until(lambda: ": submitted" in log.read_text(), "the submission to Slurm", 90.0, log.read_text)
        forgetful.stop_controller(signal.SIGKILL)
        forgetful.start_controller()
        until(lambda: returns(server, id) != [], "the return", 90.0, log.read_text)
        found = returns(server, id)[0]
        assert (found["why"], found["counted"]) == ("returned", "")  # it costs neither a retry nor a rerun
        assert found["reason"] == "Slurm accepted the job and lost it before it started"
        assert job(server, id)["state"] in ("queued", "held", "bound")
        with contextlib.suppress(RuntimeError):  # a controller that forgot the job has forgotten the drain, too
            forgetful.call("scontrol", "update", "nodename=n1", "state=resume")
        after = server.run("submit", "-o", "name", "-n1", "-t", "5m", "--", "true").stdout.split()[0]
        until(
            lambda: job(server, after)["state"] == "succeeded",
            "another job on the same cluster",
            90.0,
            log.read_text,
        )
