"""`rainbow demo`: run a server, three clusters and some jobs on this machine for about a minute."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path

import click

from rainbow_sched.cli.commands.demo_fleet import CLUSTERS, DemoFleet
from rainbow_sched.installation import require_extra
from rainbow_sched.model.errors import Unavailable

EPILOG = """\b
The three example clusters differ in size and software; their jobs are processes of this
machine. All data is in a temporary folder, which is deleted at the end.
"""


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
