"""`rainbow wait`: wait until jobs have ended."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_ids import resolve
from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render import jobs
from rainbow_sched.cli.render.listings import print_listing
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.exit_codes import ExitCode, exit_code_of_job

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient, JobInfo

MAX_LISTED_JOBS = 10  # of more jobs, only those that did not succeed are listed

EPILOG = """\b
Exit code: the job's own; of several jobs the largest; 124 after --timeout;
125 if Rainbow failed.

\b
Examples:
  rainbow wait last
  rainbow wait 3-9 && ./gather.sh
  rainbow wait train --timeout 2h
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1, required=True)
@click.option("--timeout", metavar="DURATION", help="Give up after this long: 30m, 2h.")
@output
@connected
def wait(connector: Connector, ids: tuple[str, ...], timeout: str | None, format: str) -> int:
    """Wait until all jobs IDS have ended: ids, ranges such as 3-9, names, last or all."""
    from rainbow_sched.model.quantities import parse_duration

    seconds = parse_duration(timeout) if timeout else None

    async def wait_all(client: JobClient) -> tuple[JobInfo, ...]:
        import asyncio

        async with asyncio.timeout(seconds):
            selected = await resolve(client, ids)
            client.connection.outlast_restarts()
            return await client.wait_all(selected)

    try:
        rows = [job.as_dict() for job in connector.call_jobs(wait_all)]
    except TimeoutError:
        print_message(f"not all jobs ended within {timeout}")
        return ExitCode.TIME_LIMIT
    if format != "table":
        print_listing(jobs.listing(time.time()), rows, format)
    else:
        many = len(rows) > MAX_LISTED_JOBS
        listed = [row for row in rows if row["state"] != "succeeded"] if many else rows
        for row in listed[:MAX_LISTED_JOBS]:
            how = jobs.info(row)
            print_message(f"job {row['id']} {row['state']}" + (f" ({how})" if how else ""))
        if many:
            counts = Counter(row["state"] for row in rows)
            summary = ", ".join(f"{count} {state}" for state, count in counts.most_common())
            print_message(f"{len(rows)} jobs: {summary}")
    return max((exit_code_of_job(row) for row in rows), default=0)
