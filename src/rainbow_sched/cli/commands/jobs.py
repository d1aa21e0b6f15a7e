"""`rainbow jobs`: list jobs once, or watch them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import number, on_clusters, output, pairs
from rainbow_sched.cli.render import jobs as render_jobs
from rainbow_sched.cli.render.listings import MACHINE_FORMATS, json_text, print_document, print_listing
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.render.times import parse_time
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient, JobFilter, JobInfo

DEFAULT_MAX_JOBS = 1000  # a page of output; -c N lists more

EPILOG = """\b
States (ST): D waits for a job or a time, P held, S waits for resources, R running,
C ending; CD completed, F failed, CA cancelled, TO timed out, HO handed off.

\b
Examples:
  rainbow jobs                      jobs that have not ended
  rainbow jobs -a --since -1d       all jobs of the last day
  rainbow jobs -f failed -M perl    jobs that failed on perl
  rainbow jobs -a -o '{id} {status} {cluster} {returncode}'
  rainbow jobs -w -o jsonl          all events from now on, one per line
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Include jobs that have ended.")
@click.option(
    "-f", "--filter", "wanted", metavar="WHICH[,...]", help="States: pending, running, active, failed, inactive ..."
)
@click.option("-u", "--user", metavar="NAME", help="Only jobs of this user; `me` for your own.")
@click.option("--name", help="Only jobs with this name.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only jobs with this label; repeatable.")
@click.option("--since", metavar="TIME", help="Only jobs submitted since: -1d, 09:30, 2026-11-16.")
@number("-c", "--count", least=1, help="Maximum number of jobs, newest first (default: 1000).")
@click.option("-w", "--watch", is_flag=True, help="Keep running and show changes.")
@click.option("--stats", is_flag=True, help="Show only the number of jobs.")
@on_clusters("Only jobs on these clusters.")
@output
@connected
def jobs(connector: Connector, format: str, watch: bool, stats: bool, count: int | None, **filters: Any) -> None:
    """List jobs, newest first: by default those that have not ended.

    IDS are job ids, ranges such as 3-9, names, or last.
    """
    if watch and stats:
        raise click.UsageError("--watch and --stats exclude each other; give one of them")

    async def show_jobs(client: JobClient) -> None:
        from rainbow_sched.client.jobs import MAX_SELECTED_JOBS

        selected, letters = await _filter(client, **filters)
        if watch:
            await _watch(client, selected, letters, format, count or DEFAULT_MAX_JOBS)
            return
        rows = await _rows(client, selected, letters, count or (MAX_SELECTED_JOBS if stats else DEFAULT_MAX_JOBS + 1))
        if filters["ids"] and not rows:
            await _check_exist(client, selected[0].ids, filters["ids"])
        if stats:
            counts = render_jobs.counts(rows, letters)
            print_document("rainbow.job-stats/1", counts, format, lambda: f"{render_jobs.stats(rows, letters)}\n")
        else:
            _show(rows if count else rows[:DEFAULT_MAX_JOBS], format)
            if len(rows) > DEFAULT_MAX_JOBS and not count:
                print_message(
                    f"only the newest {DEFAULT_MAX_JOBS} jobs are listed; -c N lists more, --stats counts all"
                )

    connector.call_jobs(show_jobs)


async def _filter(
    client: JobClient,
    *,
    ids: tuple[str, ...],
    everything: bool,
    wanted: str | None,
    user: str | None,
    name: str | None,
    labels: tuple[str, ...],
    since: str | None,
    clusters: tuple[str, ...],
) -> tuple[list[JobFilter], frozenset[str]]:
    """Return the filters for the server, one per cluster, and the state letters to keep."""
    from rainbow_sched.client.jobs import JobFilter

    selected: Sequence[int] = ()
    if ids:
        from rainbow_sched.cli.input.job_ids import resolve

        selected = await resolve(client, ids)
    letters = letters_of(wanted or ("active,inactive" if everything or ids else "active"))
    if user == "me":
        from rainbow_sched.client.access import AccessClient

        user = (await AccessClient(client.connection).who_am_i()).name
    base = JobFilter(
        states=sorted({state for one in letters for state in render_jobs.STATES[one]}),
        name=name or "",
        labels=pairs(labels, "--label"),
        ids=selected,
        since=parse_time(since, time.time()) if since else None,
        owner=user or "",
    )
    return [replace(base, cluster=cluster) for cluster in clusters or ("",)], letters


def letters_of(wanted: str) -> frozenset[str]:
    """Return the state letters of a list of filter names."""
    letters: frozenset[str] = frozenset()
    for word in wanted.split(","):
        name = word.strip().lower()
        if name not in render_jobs.FILTERS:
            raise click.UsageError(f"there is no filter {word!r}; use {', '.join(render_jobs.FILTERS)}")
        letters |= render_jobs.FILTERS[name]
    return letters


async def _rows(
    client: JobClient, selected: list[JobFilter], letters: frozenset[str], count: int
) -> list[dict[str, Any]]:
    def keep(job: JobInfo) -> bool:
        return render_jobs.state_letter(job.as_dict()) in letters

    rows = {job.id: job for one in selected for job in await client.jobs(one, limit=count, keep=keep)}
    return [rows[id].as_dict() for id in sorted(rows, reverse=True)][:count]


async def _check_exist(client: JobClient, ids: Sequence[int], words: Sequence[str]) -> None:
    """Raise NotFound if none of the named jobs exists."""
    from rainbow_sched.client.jobs import JobFilter
    from rainbow_sched.model.errors import NotFound

    if not await client.jobs(JobFilter(ids=ids), limit=1):
        raise NotFound(f"there is no job {', '.join(words)} that you may see; rainbow jobs -a lists them")


def _show(rows: list[dict[str, Any]], format: str) -> None:
    print_listing(render_jobs.listing(time.time()), rows, format)
    if not rows and format in ("table", "wide"):
        print_message("no jobs; -a shows those that have ended")


async def _watch(
    client: JobClient, selected: list[JobFilter], letters: frozenset[str], format: str, count: int
) -> None:
    """Redraw the table at every change on a terminal; elsewhere print each event as a line of JSON.

    It is redrawn at most twice a second, and at least every 5.5 s to update durations.
    """
    import asyncio

    # Of all states: a job that ends must leave the list.
    changes = replace(selected[0], states=(), cluster=selected[0].cluster if len(selected) == 1 else "")
    events = client.watch(changes)
    if format in MACHINE_FORMATS or not sys.stdout.isatty():
        async for event in events:
            click.echo(json_text(event.as_dict()), nl=False)
            sys.stdout.flush()
        return
    next_event = asyncio.ensure_future(anext(events))
    while True:
        click.echo("\x1b[H\x1b[J", nl=False)
        _show(await _rows(client, selected, letters, count), format)
        await asyncio.sleep(0.5)
        await asyncio.wait({next_event}, timeout=5.0)
        if next_event.done():
            next_event.result()
            next_event = asyncio.ensure_future(anext(events))
