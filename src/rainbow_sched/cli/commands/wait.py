"""`rainbow wait`: block until jobs have ended."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import JobInfo

NAMED = 10  # jobs told one by one; of more, only those that did not succeed

EPILOG = """\b
Exit code: the job's own; of several jobs the largest; 124 when --timeout passed;
125 when Rainbow itself failed.

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
def wait(link: Link, ids: tuple[str, ...], timeout: str | None, form: str) -> int:
    """Wait until every one of IDS has ended: ids, ranges such as 3-9, names, last or all."""
    from rainbow_sched.cli.render import jobs
    from rainbow_sched.cli.render.listings import listing_text
    from rainbow_sched.cli.shell.exit_codes import Exit, of_job
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.jobspecs.reading.durations import parse_duration

    seconds = parse_duration(timeout) if timeout else None

    async def asking(client: AsyncClient) -> tuple[JobInfo, ...]:
        import asyncio

        from rainbow_sched.cli.input.job_ids import resolve

        async with asyncio.timeout(seconds):
            found = await resolve(client, ids)
            client.connection.outlast_restarts()
            return await client.wait_all(found)

    try:
        rows = [job.as_dict() for job in link.ask(asking)]
    except TimeoutError:
        say(f"not all of them ended within {timeout}")
        return Exit.TIME_LIMIT
    if form != "table":
        click.echo(listing_text(jobs.listing(time.time()), rows, form), nl=False)
    else:
        named = rows if len(rows) <= NAMED else [row for row in rows if row["state"] != "succeeded"][:NAMED]
        for row in named:
            how = jobs.info(row)
            say(f"job {row['id']} {row['state']}" + (f" ({how})" if how else ""))
        if len(rows) > NAMED:
            counts = Counter(row["state"] for row in rows)
            say(f"{len(rows)} jobs: " + ", ".join(f"{count} {state}" for state, count in counts.most_common()))
    return max((of_job(row) for row in rows), default=0)
