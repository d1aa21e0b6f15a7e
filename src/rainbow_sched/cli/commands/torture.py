"""`rainbow torture`: run the real server and agents under simulated faults in virtual time."""

from __future__ import annotations

import os
import time

import click

from rainbow_sched.cli.input.options import WholeNumber
from rainbow_sched.cli.shell.exit_codes import ExitCode

EPILOG = """\b
Each seed is one simulation: a server, two or three clusters with agents, and users, with lost
and late messages, crashes, network partitions, full disks and clock changes. After each step
the guarantees of docs/protocol.md are checked. The same seed repeats the same simulation.

\b
Examples:
  rainbow torture --seeds 10000
  rainbow torture --seeds 1 --start 4711 --trace
"""


@click.command(epilog=EPILOG)
@click.option("--seeds", type=WholeNumber(min=1), default=1_000, show_default=True, help="Number of simulations.")
@click.option("--start", type=WholeNumber(min=0), default=0, show_default=True, help="First seed.")
@click.option(
    "-j", "--processes", type=WholeNumber(min=1), default=None, help="Number of processes (default: one per core)."
)
@click.option("--trace", is_flag=True, help="With one seed: print all steps, also without a violation.")
def torture(seeds: int, start: int, processes: int | None, trace: bool) -> int:
    """Check the guarantees of server and agents under simulated faults; exit with 1 if one is violated."""
    from rainbow_sched.graphs.backend import load
    from rainbow_sched.simulation.world import run, run_seeds

    load("memory")  # so that a missing package is reported here, once, and not inside a simulation
    if trace and seeds == 1:
        result = run(start)
        click.echo("\n".join(result.trace))
        click.echo(f"seed {start}: {result.violation or 'no violation'}; trace {result.digest}")
        return ExitCode.OK if result.violation is None else ExitCode.FAILED
    results, begun = [], time.monotonic()
    for result in run_seeds(start, seeds, min(seeds, processes or os.cpu_count() or 1)):
        results.append(result)
        if result.violation is not None:
            click.echo("\n".join(result.trace))
            click.echo(f"seed {result.seed}: {result.violation}; trace {result.digest}")
            click.echo(f"repeat with: rainbow torture --seeds 1 --start {result.seed} --trace")
    seconds, hours = time.monotonic() - begun, sum(result.seconds for result in results) / 3600.0
    jobs, launches = sum(result.jobs for result in results), sum(result.launches for result in results)
    broken = sum(result.violation is not None for result in results)
    click.echo(
        f"{len(results)} worlds, {jobs} jobs, {launches} launches, {hours:.1f} hours of virtual time "
        f"in {seconds:.0f} s ({len(results) / seconds:.1f} worlds/s): {broken} broken"
    )
    return ExitCode.OK if not broken else ExitCode.FAILED
