"""`rainbow jobs`: the list of jobs, once or kept current."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import Whole, on_clusters, output, pairs
from rainbow_sched.cli.render import jobs as render_jobs
from rainbow_sched.cli.render.listings import MACHINE, document_text, json_text, listing_text
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.messages import say

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient, JobFilter
    from rainbow_sched.client.views import JobInfo

SHOWN = 1000  # unless -c says another number

EPILOG = """\b
Letters (ST): D waits for a job or a time, P held, S waits to start, R runs,
C ends; CD completed, F failed, CA cancelled, TO timed out, HO handed off.

\b
Examples:
  rainbow jobs                      what has not ended
  rainbow jobs -a --since -1d       everything of the last day
  rainbow jobs -f failed -M perl    what failed on perl
  rainbow jobs -a -o '{id} {status} {cluster} {returncode}'
  rainbow jobs -w -o jsonl          every event from now on, one per line
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that have ended.")
@click.option("-f", "--filter", "wanted", metavar="WHICH[,...]", help="pending, running, active, failed, inactive ...")
@click.option("-u", "--user", metavar="NAME", help="Only jobs of this user; `me` for your own.")
@click.option("--name", help="Only jobs of this name.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only jobs with this label; repeatable.")
@click.option("--since", metavar="TIME", help="Only jobs submitted since: -1d, 09:30, 2026-11-16.")
@click.option("-c", "--count", type=Whole(1), metavar="N", help="At most so many, the newest (default: 1000).")
@click.option("-w", "--watch", is_flag=True, help="Stay, and show changes as they happen.")
@click.option("--stats", is_flag=True, help="Only count them.")
@on_clusters("Only jobs on these clusters.")
@output
@connected
def jobs(link: Link, form: str, watch: bool, stats: bool, count: int | None, **asked: Any) -> None:
    """List jobs, the newest first: by default those that have not ended.

    IDS are job ids, ranges such as 3-9, names, or last.
    """

    if watch and stats:
        raise click.UsageError("--watch shows jobs and --stats counts them; give one of them")

    async def asking(client: AsyncClient) -> None:
        from rainbow_sched.client.job_verbs import MAX_SELECTED_JOBS

        chosen, letters = await _filter(client, **asked)
        if watch:
            await _watch(client, chosen, letters, form, count or SHOWN)
            return
        rows = await _rows(client, chosen, letters, count or (MAX_SELECTED_JOBS if stats else SHOWN + 1))
        if asked["ids"] and not rows:
            await _need_any(client, chosen[0].ids, asked["ids"])
        if stats:
            click.echo(_stats(rows, letters, form), nl=False)
        else:
            _show(rows if count else rows[:SHOWN], form)
            if len(rows) > SHOWN and not count:
                say(f"these are the newest {SHOWN}; -c shows more, --stats counts all")

    link.ask(asking)


async def _filter(
    client: AsyncClient,
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
    """What to ask the server for (once for each cluster), and the letters that are kept of it."""
    from rainbow_sched.cli.input.job_ids import resolve
    from rainbow_sched.cli.render.times import moment
    from rainbow_sched.client import JobFilter

    letters = letters_of(wanted or ("active,inactive" if everything or ids else "active"))
    owner = (await client.who_am_i()).name if user == "me" else user or ""
    base = JobFilter(
        states=sorted({state for one in letters for state in render_jobs.STATES[one]}),
        name=name or "",
        labels=pairs(labels, "--label"),
        ids=await resolve(client, ids) if ids else (),
        since=moment(since, time.time()) if since else None,
        owner=owner,
    )
    return [replace(base, cluster=cluster) for cluster in clusters or ("",)], letters


def letters_of(wanted: str) -> frozenset[str]:
    """The letters that a list of filter names means."""
    found: frozenset[str] = frozenset()
    for word in wanted.split(","):
        name = word.strip().lower()
        if name not in render_jobs.FILTERS:
            raise click.UsageError(f"there is no filter {word!r}; use {', '.join(render_jobs.FILTERS)}")
        found |= render_jobs.FILTERS[name]
    return found


async def _rows(
    client: AsyncClient, chosen: list[JobFilter], letters: frozenset[str], count: int
) -> list[dict[str, Any]]:
    def keep(job: JobInfo) -> bool:
        return render_jobs.letter(job.as_dict()) in letters

    found = {job.id: job for one in chosen for job in await client.jobs(one, limit=count, keep=keep)}
    return [found[id].as_dict() for id in sorted(found, reverse=True)][:count]


async def _need_any(client: AsyncClient, ids: Sequence[int], words: Sequence[str]) -> None:
    """Jobs that were named and are not there are not the same as none."""
    from rainbow_sched.client import JobFilter
    from rainbow_sched.model.errors import NotFound

    if not await client.jobs(JobFilter(ids=ids), limit=1):
        raise NotFound(f"there is no job {', '.join(words)} that you may see; rainbow jobs -a lists them")


def _stats(rows: list[dict[str, Any]], letters: frozenset[str], form: str) -> str:
    if form in MACHINE:
        return document_text({"schema": "rainbow.job-stats/1", **render_jobs.counts(rows, letters)}, form)
    return f"{render_jobs.stats(rows, letters)}\n"


def _show(rows: list[dict[str, Any]], form: str) -> None:
    listing = render_jobs.listing(time.time())
    click.echo(listing_text(listing, rows, form), nl=False)
    if not rows and form in ("table", "wide"):
        say("no jobs; -a shows those that have ended")


async def _watch(client: AsyncClient, chosen: list[JobFilter], letters: frozenset[str], form: str, count: int) -> None:
    """On a terminal the table is drawn again at every change; elsewhere each event is one line of JSON."""
    if form in MACHINE or not sys.stdout.isatty():
        async for event in client.watch(_changes(chosen)):
            click.echo(json_text(event.as_dict()), nl=False)
            sys.stdout.flush()
        return
    await _redrawn(client, chosen, letters, form, count)


async def _redrawn(
    client: AsyncClient, chosen: list[JobFilter], letters: frozenset[str], form: str, count: int
) -> None:
    """The table again after every change, at most twice a second, and now and then for the sake of its times."""
    import asyncio

    events = client.watch(_changes(chosen))
    following = asyncio.ensure_future(anext(events))
    while True:
        await _redraw(client, chosen, letters, form, count)
        await asyncio.sleep(0.5)
        await asyncio.wait({following}, timeout=5.0)
        if following.done():
            following.result()
            following = asyncio.ensure_future(anext(events))


def _changes(chosen: list[JobFilter]) -> JobFilter:
    """Which events to wait for: of whatever state, for a job that ends leaves the list by that."""
    return replace(chosen[0], states=(), cluster=chosen[0].cluster if len(chosen) == 1 else "")


async def _redraw(client: AsyncClient, chosen: list[JobFilter], letters: frozenset[str], form: str, count: int) -> None:
    click.echo("\x1b[H\x1b[J", nl=False)
    _show(await _rows(client, chosen, letters, count), form)
