"""`rainbow clusters`: the fleet, or one cluster of it."""

from __future__ import annotations

import time

import click

from rainbow_sched.cli.input.options import on_clusters, output
from rainbow_sched.cli.shell.connect import Link, connected

EPILOG = """\b
BIDS tells how good a cluster's predictions were: how many of its jobs started
by the time it called nine in ten sure, and how many times longer than
predicted they waited.

\b
Examples:
  rainbow clusters
  rainbow clusters perl --tree
  rainbow clusters -o json | jq '.clusters[] | select(.standing == "active") | .name'
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--tree", is_flag=True, help="Draw what the cluster consists of; equal parts share one line.")
@on_clusters("Only these clusters.")
@output
@connected
def clusters(link: Link, name: str | None, tree: bool, clusters: tuple[str, ...], form: str) -> None:
    """List clusters with what they have and what of it is free, or show the cluster NAME in full."""
    from rainbow_sched.cli.input.cluster_names import missing
    from rainbow_sched.cli.render import clusters as render_clusters
    from rainbow_sched.cli.render.listings import MACHINE, document_text, listing_text
    from rainbow_sched.model.errors import NotFound

    if tree and not name:
        raise click.UsageError("--tree needs the NAME of a cluster")
    if name:
        row = link.ask(lambda client: client.cluster(name, tree=tree)).as_dict()
        if form in MACHINE:
            click.echo(document_text({"schema": "rainbow.cluster/1", "cluster": row}, form), nl=False)
        elif form not in ("table", "wide"):
            click.echo(listing_text(render_clusters.listing(time.time()), [row], form), nl=False)
        else:
            click.echo(render_clusters.tree(row) if tree else render_clusters.in_full(row, time.time()), nl=False)
        return
    found = [one.as_dict() for one in link.ask(lambda client: client.clusters())]
    known = {row["name"] for row in found}
    for one in clusters:
        if one not in known:
            raise NotFound(missing(one, known))
    rows = [row for row in found if not clusters or row["name"] in clusters]
    click.echo(listing_text(render_clusters.listing(time.time()), rows, form), nl=False)
    if not rows and form in ("table", "wide"):
        click.echo("rainbow: no clusters; add one with rainbow register cluster", err=True)
