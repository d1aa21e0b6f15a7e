"""`rainbow run`: submit a job and stay with it as if it ran here."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import Asked, WithCommand, asks
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient

EPILOG = """\b
Keys: ^C twice within 2 s cancels the job; ^C then ^Z detaches and lets it go on.

\b
Exit code: the job's own; 128+n after signal n; 124 time limit; 130 interrupted;
125 Rainbow itself failed, or the job never began.

\b
Examples:
  rainbow run -n2 -- hostname
  rainbow run -g1 -t 10m --fail-fast train.sh && echo done
"""


@click.command(cls=WithCommand, epilog=EPILOG)
@asks
@click.option("--raw", is_flag=True, help="Pass control characters on, also to a terminal.")
@connected
def run(link: Link, asked: Asked, raw: bool) -> int:
    """Run a job and stay with it: its output is printed here, and its exit code is this command's.

    Takes what rainbow submit takes. On a terminal a status line tells where the job is
    until it starts; what of a script is not honoured is told before; nothing else is mixed
    into its output. What the job reads from stdin is empty.
    """
    from rainbow_sched.cli.input.job_request import prepare
    from rainbow_sched.cli.input.signing import signer_of
    from rainbow_sched.model.errors import Invalid

    if asked.array:
        raise Invalid("run stays with one job; submit an array, then use rainbow wait")
    prepared = prepare(asked, time.time(), os.environ)
    if not prepared.request.tasks:
        raise Invalid("it has no task, so there is nothing to run; write one under tasks", where=prepared.source)
    signer = signer_of(asked, os.environ)

    async def asking(client: AsyncClient) -> int:
        from rainbow_sched.cli.input.cluster_names import need_clusters
        from rainbow_sched.cli.shell.attached_job import Attached
        from rainbow_sched.cli.shell.messages import say

        await need_clusters(client, prepared.submission.terms)
        for ignored in prepared.request.ignored:
            say(f"{prepared.source or 'flags'}: {ignored}")
        submission = prepared.submission if signer is None else await signer(client, prepared)
        answer = await client.submit_one(submission)
        if answer.state == "held" and not sys.stderr.isatty():  # a terminal has a status line
            say(f"job {answer.id} waits: {answer.reason} (why: rainbow explain {answer.id})")
        client.connection.outlast_restarts()
        return await Attached(client, answer.id, raw=raw).follow()

    return link.ask(asking)
