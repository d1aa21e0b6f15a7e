"""`rainbow user` and `rainbow group`: manage users, and groups of clusters and users."""

from __future__ import annotations

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Column, Listing, plain_columns, print_listing, text
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

USERS_EPILOG = """\b
Rights are scopes: submit:CLUSTER, submit:@GROUP, submit:*, job:read:group|all,
job:cancel:group|all, register:PATTERN, agent:CLUSTER, admin. All users may see
and cancel their own jobs. A user without --allow and --group gets submit:*.

\b
Examples:
  rainbow user add ana --group physics
  rainbow user add bob --allow submit:perl --allow job:read:group
  rainbow user set ana --allow submit:@gpu
  rainbow user disable bob
"""
USERS = Listing(
    schema="rainbow.users/1",
    key="users",
    keys=("name", "groups", "rights", "disabled", "created_at"),
    columns=(
        Column("NAME", text("name")),
        Column("STATE", lambda row: "disabled" if row.get("disabled") else "active"),
        *plain_columns("GROUPS", "RIGHTS"),
        Column("SINCE", text("created_at"), wide=True),
    ),
)
GROUPS_EPILOG = """\b
A group can name clusters (submit:@gpu grants all of them), hold rights of its users, or
both.

\b
Examples:
  rainbow group add gpu --cluster perl --cluster corona
  rainbow group add physics --allow submit:@gpu --allow job:read:group
  rainbow user set ana --group physics
"""
GROUPS = Listing(
    schema="rainbow.groups/1",
    key="groups",
    keys=("name", "clusters", "rights", "users"),
    columns=plain_columns("NAME", "CLUSTERS", "RIGHTS", "USERS"),
)
_user_rights = click.option("--allow", "rights", multiple=True, metavar="SCOPE", help="A right; repeatable.")
_user_groups = click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; repeatable.")
_clusters = click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="A cluster; repeatable.")
_group_rights = click.option(
    "--allow", "rights", multiple=True, metavar="SCOPE", help="A right of its users; repeatable."
)


@click.group(cls=CommandGroup, epilog=USERS_EPILOG)
def user() -> None:
    """Add, change, list and disable users. For administrators."""


@user.command("add", epilog="\b\nExample:\n  rainbow user add ana --group physics\n")
@click.argument("name")
@_user_rights
@_user_groups
@connected
def add_user(connector: Connector, name: str, rights: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Add the user NAME. Create a token for the user with: rainbow token create --user NAME."""
    chosen = rights if rights or groups else ("submit:*",)
    made = connector.call(lambda client: client.put_user(name, groups=groups, rights=chosen, create=True))
    _print(name, groups=made.groups, rights=made.rights)


@user.command("set", epilog="\b\nExample:\n  rainbow user set ana --allow submit:perl --group physics\n")
@click.argument("name")
@_user_rights
@_user_groups
@click.option("--no-rights", is_flag=True, help="Remove all rights of the user.")
@click.option("--no-groups", is_flag=True, help="Remove the user from all groups.")
@connected
def change_user(
    connector: Connector, name: str, rights: tuple[str, ...], groups: tuple[str, ...], no_rights: bool, no_groups: bool
) -> None:
    """Replace the rights or the groups of the user NAME; options that are not given change nothing."""
    if not (rights or groups or no_rights or no_groups):
        raise click.UsageError("nothing to change; give --allow, --group, --no-rights or --no-groups")
    new_groups = groups if groups or no_groups else None
    new_rights = rights if rights or no_rights else None
    made = connector.call(lambda client: client.put_user(name, groups=new_groups, rights=new_rights))
    _print(name, groups=made.groups, rights=made.rights)


@user.command("list", epilog="\b\nExample:\n  rainbow user list -o json\n")
@output
@connected
def list_users(connector: Connector, format: str) -> None:
    """List users with their groups and rights."""
    rows = [one.as_dict() for one in connector.call(lambda client: client.users())]
    print_listing(USERS, rows, format)


@user.command(epilog="\b\nExample:\n  rainbow user disable bob\n")
@click.argument("name")
@connected
def disable(connector: Connector, name: str) -> None:
    """Disable the user NAME: reject all tokens and end open streams. The jobs continue."""
    connector.call(lambda client: client.put_user(name, disabled=True))
    click.echo(f"{name} is disabled")


@user.command(epilog="\b\nExample:\n  rainbow user enable bob\n")
@click.argument("name")
@connected
def enable(connector: Connector, name: str) -> None:
    """Enable the user NAME again."""
    connector.call(lambda client: client.put_user(name, disabled=False))
    click.echo(f"{name} is active")


@click.group(cls=CommandGroup, epilog=GROUPS_EPILOG)
def group() -> None:
    """Add, change and list groups. For administrators."""


@group.command("add", epilog="\b\nExample:\n  rainbow group add gpu --cluster perl --cluster corona\n")
@click.argument("name")
@_clusters
@_group_rights
@connected
def add_group(connector: Connector, name: str, clusters: tuple[str, ...], rights: tuple[str, ...]) -> None:
    """Add the group NAME."""
    made = connector.call(lambda client: client.put_group(name, clusters=clusters, rights=rights, create=True))
    _print(name, clusters=made.clusters, rights=made.rights)


@group.command("set", epilog="\b\nExample:\n  rainbow group set gpu --cluster perl\n")
@click.argument("name")
@_clusters
@_group_rights
@click.option("--no-clusters", is_flag=True, help="Remove all clusters.")
@click.option("--no-rights", is_flag=True, help="Remove all rights.")
@connected
def change_group(
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
    made = connector.call(lambda client: client.put_group(name, clusters=new_clusters, rights=new_rights))
    _print(name, clusters=made.clusters, rights=made.rights)


@group.command("list", epilog="\b\nExample:\n  rainbow group list\n")
@output
@connected
def list_groups(connector: Connector, format: str) -> None:
    """List groups."""
    rows = [one.as_dict() for one in connector.call(lambda client: client.groups())]
    print_listing(GROUPS, rows, format)


def _print(name: str, **lists: tuple[str, ...]) -> None:
    click.echo(f"{name}: " + "; ".join(f"{what} {', '.join(names) or '-'}" for what, names in lists.items()))
