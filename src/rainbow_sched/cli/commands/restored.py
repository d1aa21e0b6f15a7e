"""`rainbow restored`: show the results of a restore of the server's database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.render.listings import Column, plain_columns, print_document, table
from rainbow_sched.cli.render.listings import text as field
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient
    from rainbow_sched.client.clusters import RestoreInfo

EPILOG = """\b
Examples:
  rainbow restored
  rainbow restored --without perl
  rainbow release 118

\b
Kinds of findings:
  started    the job had started after the backup
  ended      the job had ended after the backup
  adopted    a newer attempt was found on a cluster
  found-job  a job missing in the backup was found with its attempt
  lost-job   a job missing in the backup had already ended
  too-late   a result of an attempt that is no longer valid
  killed     an attempt was killed because its agent could not identify it
"""


@click.command(epilog=EPILOG)
@click.option("--without", multiple=True, metavar="CLUSTER", help="Continue without the report of this cluster.")
@click.option("--after", default=0, metavar="N", help="Show findings after this number.")
@click.option("--limit", default=100, show_default=True, metavar="N", help="Maximum number of findings.")
@document_output()
@connected
def restored(connector: Connector, without: tuple[str, ...], after: int, limit: int, format: str) -> None:
    """Show what the last restore of the database found, and which clusters have not reported yet.

    Jobs from before the restore wait until all clusters that may have run them have reported. With --without, jobs
    that may have run on that cluster are held until their owner releases them. For administrators.
    """

    async def get_restore(client: AsyncClient) -> RestoreInfo:
        for name in without:
            await client.give_up_report(name)
        return await client.restore(after=after, limit=limit)

    restore = connector.call(get_restore).as_dict()
    print_document("rainbow.restore/1", restore, format, lambda: text(restore))


def text(restore: Mapping[str, Any]) -> str:
    """Format the results of a restore."""
    reports = [Column("CLUSTER", field("name")), Column("REPORT", field("state")), Column("WHY", field("why"))]
    numbers = [Column("N", field("seq"), right=True), *plain_columns("JOB", "ATTEMPT", right=True)]
    details = [Column("CLUSTER", field("cluster")), Column("FOUND", field("kind")), Column("DETAIL", field("detail"))]
    copied = f" from a backup of {restore['copied_at']}" if "copied_at" in restore else ""
    out = (
        f"Restored at {restore['restored_at']}{copied}. Jobs up to {restore['old_jobs']} are from before the restore.\n"
    )
    missing = [row for row in restore.get("clusters", ()) if row["state"] != "reported"]
    out += table(reports, missing) if missing else "All clusters have reported.\n"
    if restore.get("jobs_waiting"):
        out += f"Jobs waiting for these reports: {restore['jobs_waiting']}. Continue without one: --without CLUSTER\n"
    if restore.get("jobs_unclear"):
        out += f"Jobs that may have run: {restore['jobs_unclear']}. To run a job (again): rainbow release JOB\n"
    if counts := restore.get("counts"):
        out += f"Found: {', '.join(f'{count} {kind}' for kind, count in sorted(counts.items()))}.\n"
    if findings := restore.get("findings"):
        out += table([*numbers, *details], findings)
    return out
