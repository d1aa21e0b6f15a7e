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
    from rainbow_sched.simulation.torture import Tally, outcomes
    from rainbow_sched.simulation.world import run

    if trace and seeds == 1:
        outcome = run(start)
        click.echo("\n".join(outcome.trace))
        click.echo(f"seed {start}: {outcome.violation or 'no violation'}; trace {outcome.digest}")
        return ExitCode.OK if outcome.violation is None else ExitCode.FAILED
    tally, begun = Tally(), time.monotonic()
    for outcome in outcomes(start, seeds, min(seeds, processes or os.cpu_count() or 1)):
        tally.add(outcome)
        if outcome.violation is not None:
            click.echo("\n".join(outcome.trace))
            click.echo(f"seed {outcome.seed}: {outcome.violation}; trace {outcome.digest}")
            click.echo(f"repeat with: rainbow torture --seeds 1 --start {outcome.seed} --trace")
    seconds = time.monotonic() - begun
    click.echo(
        f"{tally.worlds} worlds, {tally.jobs} jobs, {tally.launches} launches, {tally.hours:.1f} hours of virtual time "
        f"in {seconds:.0f} s ({tally.worlds / seconds:.1f} worlds/s): {tally.broken} broken"
    )
    return ExitCode.OK if not tally.broken else ExitCode.FAILED
