"""`rainbow logs`: print the output of a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_ids import resolve_one
from rainbow_sched.cli.input.options import WholeNumber, document_output
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient

EPILOG = """\b
Examples:
  rainbow logs 118
  rainbow logs -f last --tail 20
  rainbow logs 118 --stderr > errors.txt
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@click.option("-f", "--follow/--no-follow", default=False, help="Continue until the job has ended.")
@click.option("--tail", type=WholeNumber(0), default=0, metavar="N", help="Only the last N lines.")
@click.option("--stdout", "stream", flag_value="stdout", default=None, help="Only its stdout.")
@click.option("--stderr", "stream", flag_value="stderr", help="Only its stderr.")
@click.option("--raw", is_flag=True, help="Do not remove control characters on a terminal.")
@document_output()
@connected
def logs(connector: Connector, job: str, follow: bool, tail: int, stream: str | None, raw: bool, format: str) -> None:
    """Print the output of JOB: an id, a name, or last.

    Its stdout goes to stdout and its stderr to stderr. On a terminal, control sequences are
    removed; a file or a pipe gets every byte. With -o jsonl, or -f and -o json or yaml, each
    chunk is one line of JSON.
    """

    async def print_logs(client: JobClient) -> None:
        from rainbow_sched.cli.render.listings import MACHINE_FORMATS, document_text, json_text
        from rainbow_sched.cli.shell.attached_job import OutputPrinter

        id = await resolve_one(client, job)
        printer, empty, chunks = OutputPrinter(raw=raw), True, []
        whole = format in ("json", "yaml") and not follow
        if follow and format not in MACHINE_FORMATS:
            await _report_if_held(client, id)
        async for chunk in client.logs(id, follow=follow, stream=stream or "", tail=tail):
            empty = False
            if whole:
                chunks.append(chunk.as_dict())
            elif format in MACHINE_FORMATS:
                click.echo(json_text(chunk.as_dict()), nl=False)
                sys.stdout.flush()
            else:
                printer.write(chunk)
        printer.finish()
        if whole:
            click.echo(document_text({"schema": "rainbow.logs/1", "chunks": chunks}, format), nl=False)
        if empty and not stream and format not in MACHINE_FORMATS:
            await _report_no_output(client, id)

    connector.call_jobs(print_logs)


async def _report_if_held(client: JobClient, id: int) -> None:
    from rainbow_sched.cli.render.jobs import info
    from rainbow_sched.cli.render.terminal import print_message

    job = (await client.job(id)).as_dict()
    if job["state"] == "held":
        print_message(f"job {id} is held ({info(job)}); output follows when it runs")


async def _report_no_output(client: JobClient, id: int) -> None:
    from rainbow_sched.cli.render.jobs import ENDED, info, state_word
    from rainbow_sched.cli.render.terminal import print_message

    job = (await client.job(id)).as_dict()
    known = f" ({info(job)})" if info(job) else ""
    print_message(f"job {id} has no output{'' if job['state'] in ENDED else ' yet'}; it is {state_word(job)}{known}")
