"""`rainbow demo`: run a server, three clusters and some jobs on this machine for about a minute."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from rainbow_sched.installation import require_extra
from rainbow_sched.model.errors import Unavailable

EPILOG = """\b
The three example clusters differ in size and software; their jobs are processes of this
machine. All data is in a temporary folder, which is deleted at the end.
"""
CLUSTERS = {"perl": "software", "birch": "io", "desk": "software"}  # name -> its subsystem
_PROGRAM = [sys.executable, "-c", "from rainbow_sched.cli.main import main; main()"]
START_SECONDS = 60.0  # for the server to start, and for the agents to connect


@click.command(epilog=EPILOG)
@click.option("--keep", is_flag=True, help="Keep the folder with the database and the logs, and print its path.")
def demo(keep: bool) -> None:
    """Start a server and three clusters, run jobs, kill processes, and show that no job is lost."""
    require_extra("server", "the demo")  # includes the dependencies of the agent
    folder = Path(tempfile.mkdtemp(prefix="rainbow-demo-"))
    fleet = DemoFleet(folder)
    try:
        _show(fleet)
    finally:
        fleet.stop()
        if keep:
            click.echo(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _show(fleet: DemoFleet) -> None:
    _title("Start a server, and three clusters with agents")
    fleet.start_server()
    for name in CLUSTERS:
        fleet.register(name)
        fleet.start_agent(name)
    fleet.wait_for_agents()
    _run(fleet, "clusters")

    _title("Plan a job without submitting it")
    _run(fleet, "plan", "-N2", "-g1", "--software", "lammps@>=2024", "--", "lmp", "-in", "in.reaxff")

    _title("Submit three jobs with different requirements")
    jobs = [
        _submit(fleet, "-N4", "-n4", "-g1", "--", "echo", "four nodes with a gpu each: only perl has them"),
        _submit(fleet, "-n1", "-c64", "-M", "birch,desk", "--", "echo", "64 cores in one node: desk is too small"),
        _submit(fleet, "-n1", "--software", "gcc@>=13", "--", "echo", "desk alone has gcc 13 or newer"),
    ]
    _run(fleet, "wait", *jobs)
    for job in jobs:
        _run(fleet, "logs", job)
    _run(fleet, "jobs", "-a")

    _title("Plan a job that no cluster can run")
    _run(fleet, "plan", "-N2", "--gpus-per-node", "16", "--", "train", expect=3)

    _title("Kill the server and an agent while a job runs")
    job = _submit(fleet, "-n1", "-M", "desk", "--", "sh", "-c", "echo begun; sleep 6; echo done, once")
    _run(fleet, "logs", "-f", "--tail", "1", job, until="begun")
    click.echo("kill -9: the server, and the agent of desk")
    fleet.kill("server")
    fleet.kill("desk")
    fleet.start_server()
    fleet.start_agent("desk")
    click.echo("both are running again")
    _run(fleet, "wait", job)
    _run(fleet, "logs", job)
    _run(fleet, "explain", job)
    click.echo("\nNo job was lost.")


def _title(text: str) -> None:
    click.echo(f"\n== {text}\n")


def _submit(fleet: DemoFleet, *arguments: str) -> str:
    """Submit a job, show the output, and return the id."""
    click.echo(f"$ rainbow submit {shlex.join(arguments)}")
    done = fleet.rainbow("submit", *arguments)
    click.echo(done.stderr, nl=False)
    click.echo(done.stdout, nl=False)
    return done.stdout.strip()


def _run(fleet: DemoFleet, *arguments: str, expect: int = 0, until: str = "") -> None:
    """Run a command and show its output; stop at a line that contains `until`."""
    click.echo(f"$ rainbow {shlex.join(arguments)}")
    if until:
        for line in fleet.following(*arguments):
            click.echo(line)
            if until in line:
                return
        raise Unavailable(f"the output of the job does not contain {until!r}")
    done = fleet.rainbow(*arguments, check=False)
    click.echo(done.stdout + done.stderr, nl=False)
    if done.returncode != expect:
        raise Unavailable(f"the command exited with {done.returncode}, expected {expect}")


def examples() -> Path:
    """Return the folder of the example clusters: in the repository, or in the installed package."""
    here = Path(__file__).resolve()
    for folder in (here.parents[4] / "examples/clusters", here.parents[2] / "examples/clusters"):
        if folder.is_dir():
            return folder
    raise Unavailable("the example clusters are not installed; run the demo from a clone of the repository")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class DemoFleet:
    """The processes of the demo, and commands run against them."""

    folder: Path
    port: int = field(default_factory=free_port)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return an environment that is isolated from the user's own configuration."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("RAINBOW_")}
        home = str(self.folder / "home")
        token = self.folder / "data/admin.token"
        own = {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_DATA_HOME": f"{home}/data",
            "XDG_STATE_HOME": f"{home}/state",
            "RAINBOW_SERVER": self.address,
            "RAINBOW_REGISTRATION_SECRET": self.secret,
        }
        if token.exists():
            own["RAINBOW_TOKEN"] = token.read_text().strip()
        return inherited | own

    def start_server(self) -> None:
        """Start the server; return when its port is open."""
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        self._start("server", "server", "--listen", self.address, "--data-dir", str(self.folder / "data"))
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.running["server"].poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)  # no event tells that a process opened its port
        raise Unavailable(f"the server did not start; its log:\n{self.log('server')}")

    def register(self, name: str) -> None:
        """Register an example cluster with its subsystem."""
        config, source = self._config(name), examples() / name
        graph, subsystem = str(source / "graph.json"), CLUSTERS[name]
        common = ("--config-path", config)
        self.rainbow("config", "init", *common)
        self.rainbow("register", "cluster", "--cluster-name", name, "--nodes-json", graph, "--save", *common)
        extra = str(source / f"{subsystem}.json")
        self.rainbow("register", "subsystem", "--subsystem", subsystem, "--nodes-json", extra, *common)

    def start_agent(self, name: str) -> None:
        """Start the agent of a cluster; jobs are processes of this machine."""
        arguments = ["agent", "--cluster", name, "--config-path", self._config(name)]
        arguments += ["--graph", str(examples() / name / "graph.json"), "--state-dir", str(self.folder / name)]
        self._start(name, *arguments, "--run-as-root")

    def wait_for_agents(self) -> None:
        """Return when all agents have connected to the server."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            listed = json.loads(self.rainbow("clusters", "-o", "json").stdout)["clusters"]
            if all(cluster.get("manager") for cluster in listed):
                return
        raise Unavailable(f"not all agents connected; the log of one:\n{self.log(next(iter(CLUSTERS)))}")

    def rainbow(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `rainbow` command; raise Unavailable if it fails, unless `check` is False."""
        done = subprocess.run([*_PROGRAM, *arguments], **self._surroundings(), capture_output=True, check=False)
        if check and done.returncode:
            raise Unavailable(f"rainbow {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done

    def following(self, *arguments: str) -> Iterator[str]:
        """Yield the output lines of a command; end it when the caller stops reading."""
        process = subprocess.Popen([*_PROGRAM, *arguments], **self._surroundings(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    def _surroundings(self) -> dict[str, Any]:
        """Return the arguments that run a command in the folder, with its output as text."""
        return {"env": self.environment(), "cwd": self.folder, "stdin": subprocess.DEVNULL, "text": True}

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        self.running[name].kill()
        self.running[name].wait()

    def log(self, name: str) -> str:
        """Return the end of a process's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Stop all processes, the server last."""
        for process in reversed(self.running.values()):
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _config(self, name: str) -> str:
        return str(self.folder / f"{name}.yaml")

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*_PROGRAM, *arguments], env=self.environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
