"""`rainbow receive`: take a cluster's jobs by hand, as the prototype's clusters do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import Whole, output
from rainbow_sched.cli.render.listings import Column, Listing, listing_text
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient

EPILOG = """\b
Examples:
  rainbow receive --max-jobs 3
  rainbow receive --accept 'nodes <= 4 && labels.team == "bio"' -o json
  rainbow receive --no-accept        look; the jobs come back after the lease
"""


def _command(row: Any) -> str:
    tasks = (row.get("spec") or {}).get("tasks", ())
    return "; ".join(" ".join(task.get("command", ())) or "(script)" for task in tasks)


LISTING = Listing(
    schema="rainbow.received/1",
    key="jobs",
    keys=("job", "n", "token", "name", "owner", "spec", "terms", "lease", "priority", "array_index"),
    name="job",
    columns=(
        Column("JOBID", lambda row: str(row["job"]), right=True),
        Column("USER", lambda row: str(row.get("owner", "")).removeprefix("user:")),
        Column("NAME", lambda row: row.get("name", "")),
        Column("PRIORITY", lambda row: str(row["priority"]), right=True),
        Column("COMMAND", _command),
    ),
    fields={"id": lambda row: row["job"], "command": _command},
)


@click.command(epilog=EPILOG)
@click.option("--max-jobs", "-n", "limit", type=Whole(0), default=0, help="At most so many (default: 100).")
@click.option(
    "--accept", "accept_only", default="", metavar="EXPR", help="Only jobs for which this holds: 'nodes <= 4'."
)
@click.option("--order", "order_by", default="", metavar="EXPR", help="Those first for which this is highest: -nodes.")
@click.option("--accept-jobs/--no-accept", "taking", default=True, help="Take them over for good, or only look.")
@click.option("--lease", metavar="DURATION", help="How long they are kept for you until accepted (default: 60s).")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@click.option("--request-secret", metavar="TEXT", help="The secret (others on the machine can read it).")
@output
@connected
def receive(
    link: Link,
    limit: int,
    accept_only: str,
    order_by: str,
    taking: bool,
    lease: str | None,
    name: str | None,
    secret_file: str | None,
    request_secret: str | None,
    form: str,
) -> None:
    """Receive jobs that were given to a cluster and take them over: Rainbow follows them no more.

    Each job is leased to one receiver; one that is not accepted in time goes back to the
    queue. A cluster with an agent needs no receive.
    """
    from rainbow_sched.cli.input.graph_files import given_secret, with_cluster
    from rainbow_sched.jobspecs.reading.durations import parse_duration

    settings, chosen = with_cluster(link.settings(), name, given_secret(request_secret, secret_file))
    seconds = (parse_duration(lease) or 0.0) if lease else 0.0

    async def asking(client: AsyncClient) -> list[dict[str, Any]]:
        offers = await client.receive(chosen, limit=limit, accept_only=accept_only, order_by=order_by, lease=seconds)
        if not taking or not offers:
            return [offer.as_dict() for offer in offers]
        taken = set(await client.accept(chosen, offers))
        return [offer.as_dict() for offer in offers if offer.job in taken]

    rows = link.ask(asking, settings)
    for row in rows:
        row.pop("token", None)
        row["spec"] = json.loads(row["spec"]) if row.get("spec") else None
    click.echo(listing_text(LISTING, rows, form), nl=False)
    if not rows and form in ("table", "wide"):
        click.echo(f"rainbow: no jobs for {chosen}", err=True)
