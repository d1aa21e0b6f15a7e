"""`rainbow cancel`: cancel jobs by id, name, range or filter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.job_ids import resolve
from rainbow_sched.cli.input.options import on_clusters, output
from rainbow_sched.cli.render import jobs
from rainbow_sched.cli.render.listings import print_listing
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient, JobInfo

EPILOG = """\b
Examples:
  rainbow cancel 120-121 -m "wrong input"
  rainbow cancel last
  rainbow cancel --filter pending -n      show which jobs would be cancelled
  rainbow cancel all -M perl
"""


@click.command(epilog=EPILOG)
@click.argument("ids", nargs=-1)
@click.option("-f", "--filter", "wanted", metavar="WHICH[,...]", help="Instead of ids: pending, running, active.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be cancelled.")
@click.option("-m", "--message", default="", help="Reason, stored with the jobs.")
@on_clusters("Only jobs on these clusters.")
@output
@connected
def cancel(
    connector: Connector,
    ids: tuple[str, ...],
    wanted: str | None,
    dry_run: bool,
    message: str,
    clusters: tuple[str, ...],
    format: str,
) -> None:
    """Cancel jobs IDS: ids, ranges such as 3-9, names, last or all (all that have not ended).

    A running job is `cancelling` until its cluster has ended it. A job that ends by itself before
    that keeps its own result.
    """
    if bool(ids) == bool(wanted):
        raise click.UsageError("give either job ids or --filter")

    async def cancel_selected(client: JobClient) -> tuple[JobInfo, ...]:
        selected = await _select(client, ids, wanted, clusters)
        return await client.cancel(selected, reason=message, dry_run=dry_run) if selected else ()

    rows = [job.as_dict() for job in connector.call_jobs(cancel_selected)]
    if format == "table":
        click.echo(sentence(rows, dry_run=dry_run))
    else:
        print_listing(jobs.listing(time.time()), rows, format)


async def _select(client: JobClient, ids: tuple[str, ...], wanted: str | None, clusters: tuple[str, ...]) -> list[int]:
    from rainbow_sched.cli.commands.jobs import letters_of
    from rainbow_sched.client.jobs import ACTIVE_STATES, MAX_SELECTED_JOBS, JobFilter

    if ids and not clusters:
        return await resolve(client, ids)
    selected = JobFilter(ids=await resolve(client, ids)) if ids else JobFilter(states=ACTIVE_STATES)
    letters = letters_of(wanted) if wanted else None
    return [
        job.id
        for job in await client.jobs(selected, limit=MAX_SELECTED_JOBS)
        if (letters is None or jobs.state_letter(job.as_dict()) in letters)
        and (not clusters or job.cluster in clusters)
    ]


def sentence(rows: list[dict[str, Any]], *, dry_run: bool) -> str:
    """Format `cancelled 2 jobs (120 on perl: native 88123, ending; 121: never dispatched)`."""
    changed = [row for row in rows if row["state"] in ("cancelled", "cancelling") and not row.get("unchanged")]
    count = len(rows) if dry_run else len(changed)
    plural = "" if count == 1 else "s"
    if dry_run or not rows:
        return f"{'would cancel' if dry_run else 'cancelled'} {count} job{plural}"
    details = "; ".join(_describe(row) for row in rows[:10])
    more = f"; and {len(rows) - 10} more" if len(rows) > 10 else ""
    return f"cancelled {count} job{plural} ({details}{more})"


def _describe(row: dict[str, Any]) -> str:
    where = f" on {row['cluster']}" if row.get("cluster") else ""
    native = f"native {row['native_id']}, " if row.get("native_id") else ""
    match row["state"]:
        case "cancelled" if row.get("unchanged"):
            return f"{row['id']}{where}: was already cancelled"
        case "cancelling" if row.get("unchanged"):
            return f"{row['id']}{where}: {native}was already ending"
        case "cancelled" if not where:
            return f"{row['id']}: never dispatched"
        case "cancelled":
            return f"{row['id']}{where}: {native}cancelled"
        case "cancelling":
            return f"{row['id']}{where}: {native}ending"
        case state:
            return f"{row['id']}{where}: had already {state}"
