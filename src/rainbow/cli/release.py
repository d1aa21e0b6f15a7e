"""`rainbow release`: let held jobs go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from rainbow.cli.link import Link, connected
from rainbow.cli.options import output

if TYPE_CHECKING:
    from rainbow.client import AsyncClient
    from rainbow.client.views import JobView

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
    from rainbow.cli import render_jobs
    from rainbow.cli.output import listing_text

    async def asking(client: AsyncClient) -> list[JobView]:
        from rainbow.cli.ids import resolve

        return [await client.release(id) for id in await resolve(client, ids)]

    rows = [job.as_dict() for job in link.ask(asking)]
    click.echo(listing_text(render_jobs.listing(time.time()), rows, form), nl=False)
