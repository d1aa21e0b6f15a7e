"""`rainbow group`: one name for several clusters, and rights that several users share."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Column, Listing, listing_text
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

EPILOG = """\b
A group may stand for clusters (submit:@gpu opens all of them), hold rights for
the users in it, or both.

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
    columns=(
        Column("NAME", lambda row: row["name"]),
        Column("CLUSTERS", lambda row: ",".join(row.get("clusters", ()))),
        Column("RIGHTS", lambda row: ",".join(row.get("rights", ()))),
        Column("USERS", lambda row: ",".join(row.get("users", ()))),
    ),
)
_cluster = click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="A cluster; repeatable.")
_allow = click.option("--allow", "rights", multiple=True, metavar="SCOPE", help="A right of its users; repeatable.")


@click.group(cls=Commands, epilog=EPILOG)
def group() -> None:
    """Add, change and list groups. For administrators."""


@group.command(epilog="\b\nExample:\n  rainbow group add gpu --cluster perl --cluster corona\n")
@click.argument("name")
@_cluster
@_allow
@connected
def add(link: Link, name: str, clusters: tuple[str, ...], rights: tuple[str, ...]) -> None:
    """Add the group NAME."""
    made = link.ask(lambda client: client.put_group(name, clusters=clusters, rights=rights, create=True))
    click.echo(f"{made.name}: clusters {', '.join(made.clusters) or '-'}; rights {', '.join(made.rights) or '-'}")


@group.command("set", epilog="\b\nExample:\n  rainbow group set gpu --cluster perl\n")
@click.argument("name")
@_cluster
@_allow
@click.option("--no-clusters", is_flag=True, help="Take all clusters out.")
@click.option("--no-rights", is_flag=True, help="Take all rights.")
@connected
def change(
    link: Link, name: str, clusters: tuple[str, ...], rights: tuple[str, ...], no_clusters: bool, no_rights: bool
) -> None:
    """Replace the clusters or the rights of the group NAME; what is not given stays."""
    if not (clusters or rights or no_clusters or no_rights):
        raise click.UsageError("say what to change: --cluster, --allow, --no-clusters or --no-rights")
    made = link.ask(
        lambda client: client.put_group(
            name,
            clusters=clusters if clusters or no_clusters else None,
            rights=rights if rights or no_rights else None,
        )
    )
    click.echo(f"{made.name}: clusters {', '.join(made.clusters) or '-'}; rights {', '.join(made.rights) or '-'}")


@group.command("list", epilog="\b\nExample:\n  rainbow group list\n")
@output
@connected
def listed(link: Link, form: str) -> None:
    """List groups."""
    rows = [one.as_dict() for one in link.ask(lambda client: client.groups())]
    click.echo(listing_text(LISTING, rows, form), nl=False)
