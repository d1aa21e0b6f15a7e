"""`rainbow run`: submit a job, print its output and exit with its exit code."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import JobCommand, JobOptions, job_options
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient

EPILOG = """\b
Keys: ^C twice within 2 s cancels the job; ^C then ^Z detaches and the job continues.

\b
Exit code: the job's own; 128+n after signal n; 124 time limit; 130 interrupted;
125 Rainbow failed, or the job never started.

\b
Examples:
  rainbow run -n2 -- hostname
  rainbow run -g1 -t 10m --fail-fast train.sh && echo done
"""


@click.command(cls=JobCommand, epilog=EPILOG)
@job_options
@click.option("--raw", is_flag=True, help="Do not remove control characters on a terminal.")
@connected
def run(connector: Connector, options: JobOptions, raw: bool) -> int:
    """Submit a job, print its output and exit with its exit code.

    Takes the options of rainbow submit. Ignored directives of a script are listed first. On a
    terminal a status line shows where the job is until it starts. stdin is not forwarded.
    """
    from rainbow_sched.cli.input.job_request import prepare, sign, signing_key
    from rainbow_sched.model.errors import Invalid

    if options.array:
        raise Invalid("run takes a single job; submit an array, then use rainbow wait")
    prepared = prepare(options, time.time(), os.environ)
    if not prepared.request.tasks:
        raise Invalid("the jobspec has no task, so there is nothing to run; add one under tasks", where=prepared.source)
    key = signing_key(options, os.environ)

    async def submit_and_follow(client: JobClient) -> int:
        from rainbow_sched.cli.input.job_request import check_clusters
        from rainbow_sched.cli.render.terminal import print_message
        from rainbow_sched.cli.shell.attached_job import AttachedJob

        await check_clusters(client, prepared.submission.terms)
        for ignored in prepared.request.ignored:
            print_message(f"{prepared.source or 'flags'}: {ignored}")
        answer = await client.submit_one(await sign(client, prepared, key))
        if answer.state == "held" and not sys.stderr.isatty():  # on a terminal the status line shows it
            print_message(f"job {answer.id} waits: {answer.reason} (rainbow explain {answer.id})")
        client.connection.outlast_restarts()
        return await AttachedJob(client, answer.id, raw=raw).follow()

    return connector.call_jobs(submit_and_follow)
