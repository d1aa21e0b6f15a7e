"""`rainbow user`: manage users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Column, Listing, plain_columns, print_listing, text
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

if TYPE_CHECKING:
    from rainbow_sched.client.access import UserInfo

EPILOG = """\b
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
LISTING = Listing(
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
_allow = click.option("--allow", "rights", multiple=True, metavar="SCOPE", help="A right; repeatable.")
_group = click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; repeatable.")


@click.group(cls=CommandGroup, epilog=EPILOG)
def user() -> None:
    """Add, change, list and disable users. For administrators."""


@user.command(epilog="\b\nExample:\n  rainbow user add ana --group physics\n")
@click.argument("name")
@_allow
@_group
@connected
def add(connector: Connector, name: str, rights: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Add the user NAME. Create a token for the user with: rainbow token create --user NAME."""
    chosen = rights if rights or groups else ("submit:*",)
    _print(connector.call(lambda client: client.put_user(name, groups=groups, rights=chosen, create=True)))


@user.command("set", epilog="\b\nExample:\n  rainbow user set ana --allow submit:perl --group physics\n")
@click.argument("name")
@_allow
@_group
@click.option("--no-rights", is_flag=True, help="Remove all rights of the user.")
@click.option("--no-groups", is_flag=True, help="Remove the user from all groups.")
@connected
def change(
    connector: Connector, name: str, rights: tuple[str, ...], groups: tuple[str, ...], no_rights: bool, no_groups: bool
) -> None:
    """Replace the rights or the groups of the user NAME; options that are not given change nothing."""
    if not (rights or groups or no_rights or no_groups):
        raise click.UsageError("nothing to change; give --allow, --group, --no-rights or --no-groups")
    new_groups = groups if groups or no_groups else None
    new_rights = rights if rights or no_rights else None
    _print(connector.call(lambda client: client.put_user(name, groups=new_groups, rights=new_rights)))


@user.command("list", epilog="\b\nExample:\n  rainbow user list -o json\n")
@output
@connected
def listed(connector: Connector, format: str) -> None:
    """List users with their groups and rights."""
    rows = [one.as_dict() for one in connector.call(lambda client: client.users())]
    print_listing(LISTING, rows, format)


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


def _print(user: UserInfo) -> None:
    click.echo(f"{user.name}: groups {', '.join(user.groups) or '-'}; rights {', '.join(user.rights) or '-'}")
