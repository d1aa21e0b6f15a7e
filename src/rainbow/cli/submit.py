"""`rainbow submit`: hand a job over and print its id."""

from __future__ import annotations

import os
import time

import click

from rainbow.cli.asking import Asked, WithCommand, asks
from rainbow.cli.link import Link, connected
from rainbow.cli.options import output

EPILOG = """\b
Examples:
  rainbow submit -- hostname
  rainbow submit -N4 -n64 -g1 -t 30m --software 'lammps@>=2024' -- lmp -in in.reaxff
  rainbow submit --prefer cost -M perl,corona job.sh     # #SBATCH, # flux: or #RAINBOW lines
  rainbow submit --array 1-100 --dependency afterok:118 -- ./step.sh
  id=$(rainbow submit jobspec.yaml) && rainbow wait $id

\b
Exit code: 0 stored; 3 --fail-fast and no cluster could ever run it.
"""


@click.command(cls=WithCommand, epilog=EPILOG)
@asks
@output
@connected
def submit(link: Link, form: str, asked: Asked) -> int:
    """Submit a job and print its id. When it returns, the job is stored and survives any crash.

    FILE is a jobspec (nextgen, Flux) or a script with #SBATCH, # flux: or #RAINBOW lines.
    COMMAND runs as it is, without a shell. Flags beat what stands in a script.

    The id alone goes to stdout; what happened to the job goes to stderr.
    """
    from rainbow.cli.exits import Exit
    from rainbow.cli.output import MACHINE, document_text
    from rainbow.cli.preparing import prepare
    from rainbow.cli.report import say

    prepared = prepare(asked, time.time(), os.environ)
    answer = link.ask(lambda client: client.submit_one(prepared.submission))
    code = int(Exit.UNSATISFIABLE if answer.state == "infeasible" else Exit.OK)
    for ignored in prepared.request.ignored:
        say(f"{prepared.source or 'flags'}: {ignored}")
    if form in MACHINE:
        click.echo(document_text({"schema": "rainbow.submitted/1", **answer.as_dict()}, form), nl=False)
        return code
    said = answer.reason or (f"goes to {answer.cluster}" if answer.cluster else f"is {answer.state}")
    where = f" → {answer.cluster}" if answer.cluster and answer.cluster not in said else ""
    say(f"{said}{where}")
    click.echo(answer.id)
    return code
