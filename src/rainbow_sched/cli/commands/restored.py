"""`rainbow restored`: what a restore of the server's database found, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import RestoreInfo

EPILOG = """\b
Examples:
  rainbow restored
  rainbow restored --without perl
  rainbow release 118

\b
Kinds of findings:
  started    it had begun, and the copy did not know
  ended      it had ended, and the copy did not know
  adopted    a newer attempt was found on a cluster
  found-job  a job that the copy lacks, found with its run
  lost-job   a job that the copy lacks, already ended: nothing else is known of it
  too-late   a run that no longer counts
  killed     a run of which its agent does not know what it is
"""


@click.command(epilog=EPILOG)
@click.option("--without", multiple=True, metavar="CLUSTER", help="Go on without the report of this cluster.")
@click.option("--after", default=0, metavar="N", help="Show findings above this number.")
@click.option("--limit", default=100, show_default=True, metavar="N", help="Show at most so many findings.")
@document_output()
@connected
def restored(link: Link, without: tuple[str, ...], after: int, limit: int, form: str) -> None:
    """Show what the last restore of the database found, and which clusters have not reported yet.

    Jobs from before the restore wait until every cluster that may have run them has reported. --without says that a
    cluster never will: jobs that may have run there are held until their owner releases them. For administrators.
    """
    from rainbow_sched.cli.render.listings import MACHINE, document_text

    async def asking(client: AsyncClient) -> RestoreInfo:
        for name in without:
            await client.give_up_report(name)
        return await client.restore(after=after, limit=limit)

    found = link.ask(asking).as_dict()
    if form in MACHINE:
        click.echo(document_text({"schema": "rainbow.restore/1", **found}, form), nl=False)
    else:
        click.echo(text(found), nl=False)


def text(found: Mapping[str, Any]) -> str:
    """A restore as people read it."""
    from rainbow_sched.cli.render.listings import Column, table
    from rainbow_sched.cli.render.listings import text as field

    reports = [Column("CLUSTER", field("name")), Column("REPORT", field("state")), Column("WHY", field("why"))]
    numbers = [
        Column(name, field(key), right=True) for name, key in (("N", "seq"), ("JOB", "job"), ("ATTEMPT", "attempt"))
    ]
    details = [Column("CLUSTER", field("cluster")), Column("FOUND", field("kind")), Column("DETAIL", field("detail"))]
    copied = f" from a copy of {found['copied_at']}" if "copied_at" in found else ""
    out = f"Restored at {found['restored_at']}{copied}. Jobs up to {found['old_jobs']} are from before.\n"
    clusters = [row for row in found.get("clusters", ()) if row["state"] != "reported"]
    if clusters:
        out += table(reports, clusters)
    else:
        out += "Every cluster has reported.\n"
    if found.get("jobs_waiting"):
        out += f"Jobs that wait for these reports: {found['jobs_waiting']}. Go on without one: --without CLUSTER\n"
    if found.get("jobs_unclear"):
        out += f"Jobs that may have run: {found['jobs_unclear']}. If one may run (again): rainbow release JOB\n"
    if counts := found.get("counts"):
        out += f"Found: {', '.join(f'{count} {kind}' for kind, count in sorted(counts.items()))}.\n"
    if findings := found.get("findings"):
        out += table([*numbers, *details], findings)
    return out
