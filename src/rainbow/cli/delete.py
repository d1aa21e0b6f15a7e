"""`rainbow delete`: remove a cluster, or one of its subsystems."""

from __future__ import annotations

import click

from rainbow.cli.link import Link, connected

EPILOG = """\b
Examples:
  rainbow delete perl
  rainbow delete perl --subsystem io
"""


@click.command(epilog=EPILOG)
@click.argument("cluster", metavar="[NAME]", required=False)
@click.option("--cluster-name", "--cluster", "named", metavar="NAME", help="The cluster, as the prototype names it.")
@click.option("--delete-subsystem", "--subsystem", "subsystem", default="", metavar="NAME", help="Only this subsystem.")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@click.option("--delete-secret", metavar="TEXT", help="The secret (others on the machine can read it).")
@connected
def delete(
    link: Link,
    cluster: str | None,
    named: str | None,
    subsystem: str,
    secret_file: str | None,
    delete_secret: str | None,
) -> None:
    """Delete the cluster NAME (default: the config's), or one subsystem of it.

    A name that is registered again later inherits nothing.
    """
    from rainbow.cli.graph_files import given_secret, with_cluster

    if cluster and named and cluster != named:
        raise click.UsageError(f"name one cluster: {cluster} or {named}")
    settings, chosen = with_cluster(link.settings(), cluster or named, given_secret(delete_secret, secret_file))
    if subsystem not in ("", "cluster"):  # the prototype's word for the whole cluster
        link.ask(lambda client: client.delete_subsystem(chosen, subsystem), settings)
        click.echo(f"deleted subsystem {subsystem} of {chosen}")
        return
    moved = link.ask(lambda client: client.delete_cluster(chosen), settings)
    click.echo(f"deleted {chosen}" + (f"; {moved} jobs go to another cluster" if moved else ""))
