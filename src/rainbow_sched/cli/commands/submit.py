"""`rainbow submit`: hand a job over and print its id."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import Asked, WithCommand, asks
from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.cli.input.job_request import Prepared
    from rainbow_sched.cli.input.signing import Signer
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import Submitted

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
@document_output("name")
@connected
def submit(link: Link, form: str, asked: Asked) -> int:
    """Submit a job and print its id. When it returns, the job is stored and survives any crash.

    FILE is a jobspec (nextgen, Flux) or a script with #SBATCH, # flux: or #RAINBOW lines.
    COMMAND runs as it is, without a shell. Flags beat what stands in a script.

    The id alone goes to stdout (of an array: a range, as rainbow wait takes it); what
    happened to the job goes to stderr.
    """
    from rainbow_sched.cli.input.job_request import prepare
    from rainbow_sched.cli.input.signing import signer_of
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.shell.exit_codes import Exit
    from rainbow_sched.cli.shell.messages import say

    prepared = prepare(asked, time.time(), os.environ)
    signer = signer_of(asked, os.environ)
    answers = link.ask(lambda client: _submitted(client, prepared, signer))
    answer = answers[0]
    code = int(Exit.UNSATISFIABLE if answer.state == "infeasible" else Exit.OK)
    if not prepared.request.tasks:
        say(f"{prepared.source}: it has no task, so an agent has nothing to run; it waits for rainbow receive")
    for ignored in prepared.request.ignored:
        say(f"{prepared.source or 'flags'}: {ignored}")
    if form in MACHINE:
        ids = {"ids": [one.id for one in answers]} if asked.array else {}
        click.echo(document_text({"schema": "rainbow.submitted/1", **answer.as_dict(), **ids}, form), nl=False)
        return code
    said = answer.reason or (f"goes to {answer.cluster}" if answer.cluster else f"is {answer.state}")
    where = f" → {answer.cluster}" if answer.cluster and answer.cluster not in said else ""
    say(f"{said}{where}" + (f" (the first of {len(answers)} jobs)" if asked.array else ""))
    click.echo(ranges([one.id for one in answers]))
    return code


async def _submitted(client: AsyncClient, prepared: Prepared, signer: Signer | None) -> tuple[Submitted, ...]:
    from rainbow_sched.cli.input.cluster_names import need_clusters

    await need_clusters(client, prepared.submission.terms)
    submission = prepared.submission if signer is None else await signer(client, prepared)
    return await client.submit_batch([submission]) if submission.array else (await client.submit_one(submission),)


def ranges(ids: Sequence[int]) -> str:
    """`4-8 11`: ids as `wait`, `logs` and `cancel` take them."""
    runs: list[list[int]] = []
    for id in sorted(ids):
        if runs and runs[-1][-1] == id - 1:
            runs[-1].append(id)
        else:
            runs.append([id])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
