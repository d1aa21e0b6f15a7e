"""`rainbow group`: manage groups of clusters and users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Listing, plain_columns, print_listing
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

if TYPE_CHECKING:
    from rainbow_sched.client.access import GroupInfo

EPILOG = """\b
A group can name clusters (submit:@gpu grants all of them), hold rights of its users, or
both.

\b
Examples:
  rainbow group add gpu --cluster perl --cluster corona
  rainbow group add physics --allow submit:@gpu --allow job:read:group
  rainbow user set ana --group physics
"""
LISTING = Listing(
    schema="rainbow.groups/1",
    key="groups",
    keys=("name", "clusters", "rights", "users"),
    columns=plain_columns("NAME", "CLUSTERS", "RIGHTS", "USERS"),
)
_cluster = click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="A cluster; repeatable.")
_allow = click.option("--allow", "rights", multiple=True, metavar="SCOPE", help="A right of its users; repeatable.")


@click.group(cls=CommandGroup, epilog=EPILOG)
def group() -> None:
    """Add, change and list groups. For administrators."""


@group.command(epilog="\b\nExample:\n  rainbow group add gpu --cluster perl --cluster corona\n")
@click.argument("name")
@_cluster
@_allow
@connected
def add(connector: Connector, name: str, clusters: tuple[str, ...], rights: tuple[str, ...]) -> None:
    """Add the group NAME."""
    _print(connector.call(lambda client: client.put_group(name, clusters=clusters, rights=rights, create=True)))


@group.command("set", epilog="\b\nExample:\n  rainbow group set gpu --cluster perl\n")
@click.argument("name")
@_cluster
@_allow
@click.option("--no-clusters", is_flag=True, help="Remove all clusters.")
@click.option("--no-rights", is_flag=True, help="Remove all rights.")
@connected
def change(
    connector: Connector,
    name: str,
    clusters: tuple[str, ...],
    rights: tuple[str, ...],
    no_clusters: bool,
    no_rights: bool,
) -> None:
    """Replace the clusters or the rights of the group NAME; options that are not given change nothing."""
    if not (clusters or rights or no_clusters or no_rights):
        raise click.UsageError("nothing to change; give --cluster, --allow, --no-clusters or --no-rights")
    new_clusters = clusters if clusters or no_clusters else None
    new_rights = rights if rights or no_rights else None
    _print(connector.call(lambda client: client.put_group(name, clusters=new_clusters, rights=new_rights)))


@group.command("list", epilog="\b\nExample:\n  rainbow group list\n")
@output
@connected
def listed(connector: Connector, format: str) -> None:
    """List groups."""
    rows = [one.as_dict() for one in connector.call(lambda client: client.groups())]
    print_listing(LISTING, rows, format)


def _print(group: GroupInfo) -> None:
    click.echo(f"{group.name}: clusters {', '.join(group.clusters) or '-'}; rights {', '.join(group.rights) or '-'}")
