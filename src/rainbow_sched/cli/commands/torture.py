"""`rainbow torture`: let the real server and agents live through thousands of bad days in virtual time."""

from __future__ import annotations

import os
import time

import click

from rainbow_sched.cli.input.options import Whole
from rainbow_sched.cli.shell.exit_codes import Exit

EPILOG = """\b
Each seed is one world: a server, two or three clusters with their agents, users, lost and late
messages, crashes, cut wires, full disks, clocks that jump. After every step the promises of
docs/protocol.md are checked. The same seed gives the same world, step by step.

\b
Examples:
  rainbow torture --seeds 10000
  rainbow torture --seeds 1 --start 4711 --trace
"""


@click.command(epilog=EPILOG)
@click.option("--seeds", type=Whole(min=1), default=1_000, show_default=True, help="How many worlds.")
@click.option("--start", type=Whole(min=0), default=0, show_default=True, help="The first seed.")
@click.option("-j", "--processes", type=Whole(min=1), default=None, help="Processes; default: one per core.")
@click.option("--trace", is_flag=True, help="Print what happened in a single world, even if nothing was broken.")
def torture(seeds: int, start: int, processes: int | None, trace: bool) -> int:
    """Check the promises of server and agents under simulated faults; end with 1 if one was broken."""
    from rainbow_sched.simulation.torture import Tally, outcomes
    from rainbow_sched.simulation.world import run

    if trace and seeds == 1:
        outcome = run(start)
        click.echo("\n".join(outcome.trace))
        click.echo(f"seed {start}: {outcome.violation or 'every promise was kept'}; trace {outcome.digest}")
        return Exit.OK if outcome.violation is None else Exit.FAILED
    tally, begun = Tally(), time.monotonic()
    for outcome in outcomes(start, seeds, min(seeds, processes or os.cpu_count() or 1)):
        tally.add(outcome)
        if outcome.violation is not None:
            click.echo("\n".join(outcome.trace))
            click.echo(f"seed {outcome.seed}: {outcome.violation}; trace {outcome.digest}")
            click.echo(f"again: rainbow torture --seeds 1 --start {outcome.seed} --trace")
    seconds = time.monotonic() - begun
    click.echo(
        f"{tally.worlds} worlds, {tally.jobs} jobs, {tally.launches} launches, {tally.hours:.1f} hours of virtual time "
        f"in {seconds:.0f} s ({tally.worlds / seconds:.1f} worlds/s): {tally.broken} broken"
    )
    return Exit.OK if not tally.broken else Exit.FAILED
