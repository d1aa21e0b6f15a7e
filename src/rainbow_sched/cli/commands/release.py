"""`rainbow release`: release held jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_ids import resolve
from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render import jobs
from rainbow_sched.cli.render.listings import print_listing
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient, JobInfo

EPILOG = """\b
Example:
  id=$(rainbow submit --hold -- ./big) && rainbow plan -- ./big && rainbow release $id
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1, required=True)
@output
@connected
def release(connector: Connector, ids: tuple[str, ...], format: str) -> None:
    """Release the jobs IDS, which were submitted with --hold or are held after a restore because they may have run."""

    async def release_all(client: JobClient) -> list[JobInfo]:
        return [await client.release(id) for id in await resolve(client, ids)]

    rows = [job.as_dict() for job in connector.call_jobs(release_all)]
    print_listing(jobs.listing(time.time()), rows, format)
