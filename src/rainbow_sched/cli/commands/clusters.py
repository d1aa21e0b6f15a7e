"""`rainbow clusters`: list clusters, or show one."""

from __future__ import annotations

import time
from functools import partial

import click

from rainbow_sched.cli.input.job_request import unknown_cluster
from rainbow_sched.cli.input.options import on_clusters, output
from rainbow_sched.cli.render import clusters as render_clusters
from rainbow_sched.cli.render.listings import MACHINE_FORMATS, print_document, print_listing
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.model.errors import NotFound

EPILOG = """\b
BIDS: share of jobs that started before the predicted p90, and actual/predicted wait.

\b
Examples:
  rainbow clusters
  rainbow clusters perl --tree
  rainbow clusters -o json | jq '.clusters[] | select(.standing == "active") | .name'
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--tree", is_flag=True, help="Show the containment tree; equal parts share a line.")
@on_clusters("Only these clusters.")
@output
@connected
def clusters(connector: Connector, name: str | None, tree: bool, clusters: tuple[str, ...], format: str) -> None:
    """List clusters with their free and total resources, or show details of the cluster NAME."""
    if tree and not name:
        raise click.UsageError("--tree needs the NAME of a cluster")
    listing = render_clusters.listing(time.time())
    if name:
        row = connector.call(lambda client: client.cluster(name, tree=tree)).as_dict()
        if format in (*MACHINE_FORMATS, "table", "wide"):
            show = render_clusters.tree if tree else partial(render_clusters.cluster_details, now=time.time())
            print_document("rainbow.cluster/1", {"cluster": row}, format, lambda: show(row))
        else:
            print_listing(listing, [row], format)
        return
    rows = [one.as_dict() for one in connector.call(lambda client: client.clusters())]
    known = {row["name"] for row in rows}
    for one in clusters:
        if one not in known:
            raise NotFound(unknown_cluster(one, known))
    rows = [row for row in rows if not clusters or row["name"] in clusters]
    print_listing(listing, rows, format)
    if not rows and format in ("table", "wide"):
        print_message("no clusters; add one with rainbow register cluster")
