"""`rainbow receive`: receive the jobs of a cluster without an agent, as the prototype's clusters do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.graph_files import cluster_settings
from rainbow_sched.cli.input.options import WholeNumber, output
from rainbow_sched.cli.render.listings import Column, Listing, print_listing, text
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient

EPILOG = """\b
Examples:
  rainbow receive --max-jobs 3
  rainbow receive --accept 'nodes <= 4 && labels.team == "bio"' -o json
  rainbow receive --no-accept        only list; the jobs return after the lease
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
        Column("JOBID", text("job"), right=True),
        Column("USER", lambda row: str(row.get("owner", "")).removeprefix("user:")),
        Column("NAME", text("name")),
        Column("PRIORITY", text("priority"), right=True),
        Column("COMMAND", _command),
    ),
    fields={"id": lambda row: row["job"], "command": _command},
)


@click.command(epilog=EPILOG)
@click.option(
    "--max-jobs", "-n", "limit", type=WholeNumber(0), default=0, help="Maximum number of jobs (default: 100)."
)
@click.option(
    "--accept", "accept_only", default="", metavar="EXPR", help="Only jobs for which this is true: 'nodes <= 4'."
)
@click.option("--order", "order_by", default="", metavar="EXPR", help="Order by this value, highest first: -nodes.")
@click.option("--accept-jobs/--no-accept", "taking", default=True, help="Accept the jobs, or only list them.")
@click.option("--lease", metavar="DURATION", help="Time to accept the jobs (default: 60s).")
@click.option("--cluster-name", "name", metavar="NAME", help="The cluster (default: the config's).")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@click.option("--request-secret", metavar="TEXT", help="The secret (visible to other users of the machine).")
@output
@connected
def receive(
    connector: Connector,
    taking: bool,
    lease: str | None,
    name: str | None,
    secret_file: str | None,
    request_secret: str | None,
    format: str,
    **selection: Any,
) -> None:
    """Receive jobs that were assigned to a cluster. Rainbow does not track them any further.

    Each job is leased to one receiver and returns to the queue unless it is accepted in time.
    Clusters with an agent do not need this command.
    """
    from rainbow_sched.model.quantities import parse_duration

    settings, cluster = cluster_settings(connector.settings(), name, secret_file, request_secret)
    seconds = (parse_duration(lease) or 0.0) if lease else 0.0

    async def receive_jobs(client: AsyncClient) -> list[dict[str, Any]]:
        offers = await client.receive(cluster, lease=seconds, **selection)
        if not taking or not offers:
            return [offer.as_dict() for offer in offers]
        accepted = set(await client.accept(cluster, offers))
        return [offer.as_dict() for offer in offers if offer.job in accepted]

    rows = connector.call(receive_jobs, settings)
    for row in rows:
        row.pop("token", None)
        row["spec"] = json.loads(row["spec"]) if row.get("spec") else None
    print_listing(LISTING, rows, format)
    if not rows and format in ("table", "wide"):
        print_message(f"no jobs for {cluster}")
