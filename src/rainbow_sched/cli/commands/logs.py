"""`rainbow logs`: what a job printed, while it runs, after its end, after a cancel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import Whole, document_output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient

EPILOG = """\b
Examples:
  rainbow logs 118
  rainbow logs -f last --tail 20
  rainbow logs 118 --stderr > errors.txt
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@click.option("-f", "--follow/--no-follow", default=False, help="Stay until the job has ended.")
@click.option("--tail", type=Whole(0), default=0, metavar="N", help="Only the last N lines.")
@click.option("--stdout", "stream", flag_value="stdout", default=None, help="Only what it wrote to stdout.")
@click.option("--stderr", "stream", flag_value="stderr", help="Only what it wrote to stderr.")
@click.option("--raw", is_flag=True, help="Pass control characters on, also to a terminal.")
@document_output()
@connected
def logs(link: Link, job: str, follow: bool, tail: int, stream: str | None, raw: bool, form: str) -> None:
    """Print the output of JOB: an id, a name, or last.

    Its stdout goes to stdout and its stderr to stderr. On a terminal, control sequences
    are left out; into a file or a pipe every byte goes as it came. With -o jsonl, or -f and
    any form for programs, each piece is one line of JSON.
    """

    async def asking(client: AsyncClient) -> None:
        from rainbow_sched.cli.input.job_ids import only_one
        from rainbow_sched.cli.render.listings import MACHINE, document_text, json_text
        from rainbow_sched.cli.shell.output_stream import Printer

        id = await only_one(client, job)
        printer, empty, chunks = Printer(raw=raw), True, []
        whole = form in ("json", "yaml") and not follow
        if follow and form not in MACHINE:
            await _say_if_held(client, id)
        async for chunk in client.logs(id, follow=follow, stream=stream or "", tail=tail):
            empty = False
            if whole:
                chunks.append(chunk.as_dict())
            elif form in MACHINE:
                click.echo(json_text(chunk.as_dict()), nl=False)
                sys.stdout.flush()
            else:
                printer.write(chunk)
        printer.finish()
        if whole:
            click.echo(document_text({"schema": "rainbow.logs/1", "chunks": chunks}, form), nl=False)
        if empty and not stream and form not in MACHINE:
            await _say_why(client, id)

    link.ask(asking)


async def _say_if_held(client: AsyncClient, id: int) -> None:
    """Whoever follows a job that is held may wait for long, and wants to know what for."""
    from rainbow_sched.cli.render.jobs import info
    from rainbow_sched.cli.shell.messages import say

    job = (await client.job(id)).as_dict()
    if job["state"] == "held":
        say(f"job {id} is held ({info(job)}); its output comes when it runs")


async def _say_why(client: AsyncClient, id: int) -> None:
    """Silence has a cause: the job has not begun, went elsewhere, or had nothing to say."""
    from rainbow_sched.cli.render.jobs import ENDED, info, word
    from rainbow_sched.cli.shell.messages import say

    job = (await client.job(id)).as_dict()
    known = info(job)
    ended = job["state"] in ENDED
    say(f"job {id} has no output{'' if ended else ' yet'}; it is {word(job)}" + (f" ({known})" if known else ""))
