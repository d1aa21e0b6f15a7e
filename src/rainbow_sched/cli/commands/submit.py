"""`rainbow submit`: submit a job and print its id."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import JobCommand, JobOptions, job_options
from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import importing
from rainbow_sched.model.ranges import format_ranges

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rainbow_sched.cli.input.job_request import PreparedJob
    from rainbow_sched.client.jobs import JobClient, Submitted

EPILOG = """\b
Examples:
  rainbow submit -- hostname
  rainbow submit -N4 -n64 -g1 -t 30m --software 'lammps@>=2024' -- lmp -in in.reaxff
  rainbow submit --prefer cost -M perl,corona job.sh     # #SBATCH, # flux: or #RAINBOW lines
  rainbow submit --array 1-100 --dependency afterok:118 -- ./step.sh
  id=$(rainbow submit jobspec.yaml) && rainbow wait $id

\b
Exit code: 0 stored; 3 with --fail-fast if no cluster can ever run the job.
"""


@click.command(cls=JobCommand, epilog=EPILOG)
@job_options
@document_output("name")
@connected
def submit(connector: Connector, format: str, options: JobOptions) -> int:
    """Submit a job and print its id. Once the id is printed, the job survives any crash.

    FILE is a jobspec (nextgen, Flux) or a script with #SBATCH, # flux: or #RAINBOW lines.
    COMMAND runs without a shell. Options override directives of a script.

    Only the id goes to stdout (for an array a range, as rainbow wait takes it); messages go
    to stderr.
    """
    with importing():
        from rainbow_sched.cli.input.job_request import prepare, signing_key
    from rainbow_sched.cli.render.listings import MACHINE_FORMATS, document_text
    from rainbow_sched.cli.render.terminal import print_message
    from rainbow_sched.cli.shell.exit_codes import ExitCode

    prepared = prepare(options, time.time(), os.environ)
    key = signing_key(options, os.environ)
    answers = connector.call_jobs(lambda client: _submit(client, prepared, key))
    answer = answers[0]
    code = int(ExitCode.UNSATISFIABLE if answer.state == "infeasible" else ExitCode.OK)
    if not prepared.request.tasks:
        print_message(
            f"{prepared.source}: the jobspec has no task, so agents cannot run the job; it waits for rainbow receive"
        )
    for ignored in prepared.request.ignored:
        print_message(f"{prepared.source or 'flags'}: {ignored}")
    if format in MACHINE_FORMATS:
        ids = {"ids": [one.id for one in answers]} if options.array else {}
        click.echo(document_text({"schema": "rainbow.submitted/1", **answer.as_dict(), **ids}, format), nl=False)
        return code
    outcome = answer.reason or (f"goes to {answer.cluster}" if answer.cluster else f"is {answer.state}")
    where = f" → {answer.cluster}" if answer.cluster and answer.cluster not in outcome else ""
    print_message(f"{outcome}{where}" + (f" (first of {len(answers)} jobs)" if options.array else ""))
    click.echo(format_ranges((one.id for one in answers), " ") if options.array else answer.id)
    return code


async def _submit(client: JobClient, prepared: PreparedJob, key: Ed25519PrivateKey | None) -> tuple[Submitted, ...]:
    from rainbow_sched.cli.input.job_request import check_clusters, sign

    await check_clusters(client, prepared.submission.terms)
    submission = await sign(client, prepared, key)
    return await client.submit_batch([submission]) if submission.array else (await client.submit_one(submission),)
