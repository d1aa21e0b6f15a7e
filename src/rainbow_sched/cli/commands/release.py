"""`rainbow release`: let held jobs go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import JobInfo

EPILOG = """\b
Example:
  id=$(rainbow submit --hold -- ./big) && rainbow plan -- ./big && rainbow release $id
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1, required=True)
@output
@connected
def release(link: Link, ids: tuple[str, ...], form: str) -> None:
    """Release IDS: jobs submitted with --hold, or held since a restore because they may have run."""
    from rainbow_sched.cli.render import jobs
    from rainbow_sched.cli.render.listings import listing_text

    async def asking(client: AsyncClient) -> list[JobInfo]:
        from rainbow_sched.cli.input.job_ids import resolve

        return [await client.release(id) for id in await resolve(client, ids)]

    rows = [job.as_dict() for job in link.ask(asking)]
    click.echo(listing_text(jobs.listing(time.time()), rows, form), nl=False)
