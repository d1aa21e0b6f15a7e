"""`rainbow demo`: the whole of it on this machine, in less than two minutes, with nothing left behind."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path

import click

from rainbow_sched.cli.commands.demo_fleet import CLUSTERS, Fleet
from rainbow_sched.installation import require_extra
from rainbow_sched.model.errors import Unavailable

EPILOG = """\b
The three clusters are examples of different shape; their jobs are real processes of
this machine. Everything lives in a temporary folder and ends with the demo.
"""


@click.command(epilog=EPILOG)
@click.option("--keep", is_flag=True, help="Keep the folder with the database and the logs, and say where it is.")
def demo(keep: bool) -> None:
    """Start a server and three clusters, run jobs, pull some plugs, and lose nothing."""
    require_extra("server", "the demo")  # which holds all that an agent needs, too
    folder = Path(tempfile.mkdtemp(prefix="rainbow-demo-"))
    fleet = Fleet(folder)
    try:
        _show(fleet)
    finally:
        fleet.stop()
        if keep:
            click.echo(f"kept: {folder}")
        else:
            _remove(folder)


def _show(fleet: Fleet) -> None:
    _title("A server, and three clusters of different shape, each with its agent")
    fleet.start_server()
    for name in CLUSTERS:
        fleet.register(name)
        fleet.start_agent(name)
    fleet.wait_for_agents()
    _run(fleet, "clusters")

    _title("Where would this go? Nothing is submitted")
    _run(fleet, "plan", "-N2", "-g1", "--software", "lammps@>=2024", "--", "lmp", "-in", "in.reaxff")

    _title("Three jobs land on three clusters, each for a reason of its own")
    jobs = [
        _submit(fleet, "-N4", "-n4", "-g1", "--", "echo", "four nodes with a gpu each: only perl has them"),
        _submit(fleet, "-n1", "-c64", "-M", "birch,desk", "--", "echo", "64 cores in one node: desk is too small"),
        _submit(fleet, "-n1", "--software", "gcc@>=13", "--", "echo", "desk alone has gcc 13 or newer"),
    ]
    _run(fleet, "wait", *jobs)
    for job in jobs:
        _run(fleet, "logs", job)
    _run(fleet, "jobs", "-a")

    _title("A job that nothing can run, and why")
    _run(fleet, "plan", "-N2", "--gpus-per-node", "16", "--", "train", expect=3)

    _title("Pull the plugs: the server and an agent are killed while a job runs")
    job = _submit(fleet, "-n1", "-M", "desk", "--", "sh", "-c", "echo begun; sleep 6; echo done, once")
    _run(fleet, "logs", "-f", "--tail", "1", job, until="begun")
    click.echo("kill -9: the server, and the agent of desk")
    fleet.kill("server")
    fleet.kill("desk")
    fleet.start_server()
    fleet.start_agent("desk")
    click.echo("both are back")
    _run(fleet, "wait", job)
    _run(fleet, "logs", job)
    _run(fleet, "explain", job)
    click.echo("\nNothing was lost.")


def _title(text: str) -> None:
    click.echo(f"\n== {text}\n")


def _submit(fleet: Fleet, *arguments: str) -> str:
    """Submit, show what the user would see, and return the id."""
    click.echo(f"$ rainbow submit {shlex.join(arguments)}")
    done = fleet.rainbow("submit", *arguments)
    click.echo(done.stderr, nl=False)
    click.echo(done.stdout, nl=False)
    return done.stdout.strip()


def _run(fleet: Fleet, *arguments: str, expect: int = 0, until: str = "") -> None:
    """Run a command and show it with its output; `until` ends it when its output says so."""
    click.echo(f"$ rainbow {shlex.join(arguments)}")
    if until:
        for line in fleet.following(*arguments):
            click.echo(line)
            if until in line:
                return
        raise Unavailable(f"the output of the job did not say {until!r}")
    done = fleet.rainbow(*arguments, check=False)
    click.echo(done.stdout + done.stderr, nl=False)
    if done.returncode != expect:
        raise Unavailable(f"that ended with {done.returncode}, and {expect} was expected")


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
