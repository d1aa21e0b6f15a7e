"""`rainbow token`: create, list, rotate and revoke tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import document_output, output
from rainbow_sched.cli.render.listings import (
    MACHINE_FORMATS,
    Column,
    Listing,
    plain_columns,
    print_document,
    print_listing,
    text,
)
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.cli.shell.lazy_group import CommandGroup

if TYPE_CHECKING:
    from rainbow_sched.client.access import NewToken

EPILOG = """\b
A token grants at most the rights of its owner; without --scope, all of them. Its text is
printed once and is not stored. Tokens are valid for 30 days unless --ttl is given.

\b
Examples:
  rainbow token create --scope submit:perl --scope job:read:own --ttl 7d
  rainbow token create --user ana --scope submit:@gpu
  rainbow token create --join --ttl 1h
  rainbow token list --all
  rainbow token rotate 3f9k2m1xq0ab
"""
LISTING = Listing(
    schema="rainbow.tokens/1",
    key="tokens",
    keys=("id", "kind", "owner", "scopes", "created_at", "expires_at", "revoked_at", "used_at", "uses_left", "note"),
    name="id",
    columns=(
        *plain_columns("ID", "KIND", "OWNER", "SCOPES"),
        Column("EXPIRES", text("expires_at")),
        Column("LAST USE", text("used_at")),
        Column("REVOKED", text("revoked_at"), wide=True),
        Column("NOTE", text("note"), wide=True),
    ),
)


@click.group(cls=CommandGroup, epilog=EPILOG)
def token() -> None:
    """Create, list, rotate and revoke tokens."""


@token.command(epilog="\b\nExample:\n  rainbow token create --scope submit:perl --ttl 7d > perl.token\n")
@click.option("--user", "owner", default="", metavar="NAME", help="Owner (default: you). For administrators.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="A right of the token; repeatable.")
@click.option("--ttl", metavar="TIME", help="How long it is valid: 12h, 30d.")
@click.option("--note", default="", help="Note, shown in the list.")
@click.option("--join", is_flag=True, help="A token to register one cluster, valid for an hour.")
@click.option("--name", "pattern", metavar="PATTERN", help="With --join: pattern for the cluster's name.")
@document_output()
@connected
def create(
    connector: Connector,
    owner: str,
    scopes: tuple[str, ...],
    ttl: str | None,
    note: str,
    join: bool,
    pattern: str | None,
    format: str,
) -> None:
    """Create a token and print its text, only this once."""
    if pattern and not join:
        raise click.UsageError("--name needs --join")
    scopes = (*scopes, f"register:{pattern}") if pattern else scopes
    seconds = _seconds(ttl)
    made = connector.call(
        lambda client: client.create_token(owner=owner, scopes=scopes, ttl=seconds, note=note, join=join)
    )
    _show(made, format)


@token.command("list", epilog="\b\nExample:\n  rainbow token list --all -o json\n")
@click.option("--user", "owner", default="", metavar="NAME", help="Owner (default: you).")
@click.option("--all", "everybody", is_flag=True, help="Tokens of all users. For administrators.")
@click.option("--dead", is_flag=True, help="Include tokens that are revoked, expired or used up.")
@output
@connected
def listed(connector: Connector, owner: str, everybody: bool, dead: bool, format: str) -> None:
    """List tokens, without their texts."""
    tokens = connector.call(lambda client: client.tokens(owner=owner, everybody=everybody, dead=dead))
    print_listing(LISTING, [one.as_dict() for one in tokens], format)


@token.command(epilog="\b\nExample:\n  rainbow token revoke 3f9k2m1xq0ab\n")
@click.argument("ids", nargs=-1, required=True)
@connected
def revoke(connector: Connector, ids: tuple[str, ...]) -> None:
    """Revoke the tokens IDS immediately; their open streams end within a second."""
    connector.call_each(ids, lambda client, id: client.revoke_token(id), lambda id, _: f"{id} is revoked")


@token.command(epilog="\b\nExample:\n  rainbow token rotate 3f9k2m1xq0ab --grace 1h\n")
@click.argument("id", required=False, default="")
@click.option("--grace", metavar="TIME", help="How long the old token stays valid (default: 10m).")
@document_output()
@connected
def rotate(connector: Connector, id: str, grace: str | None, format: str) -> None:
    """Replace the token ID, by default the one in use. Both are valid for the grace period."""
    seconds = _seconds(grace)
    _show(connector.call(lambda client: client.rotate_token(id, grace=seconds)), format)


@token.command(epilog="\b\nExample:\n  rainbow token renew perl\n")
@click.argument("clusters", nargs=-1, required=True)
@connected
def renew(connector: Connector, clusters: tuple[str, ...]) -> None:
    """Ask the agents of CLUSTERS to replace their secrets, within a minute. For administrators."""
    connector.call_each(
        clusters,
        lambda client, cluster: client.ask_renewal(cluster),
        lambda cluster, _: f"asked the agent of {cluster} to renew its secret",
    )


def _seconds(text: str | None) -> float:
    from rainbow_sched.model.errors import Invalid
    from rainbow_sched.model.quantities import parse_duration

    if text is None:
        return 0.0
    seconds = parse_duration(text)
    if seconds is None:
        raise Invalid("a token needs an expiry; write for example 30d")
    return seconds


def _show(made: NewToken, format: str) -> None:
    token, row = made.token, made.token.as_dict()
    print_document("rainbow.token/1", {"text": made.text, "token": row}, format, lambda: f"{made.text}\n")
    if format not in MACHINE_FORMATS:
        once = ", one use" if token.uses_left == 1 else ""
        until = row.get("expires_at", "revoked")
        print_message(f"token {token.id} of {token.owner}{once}, valid until {until}: {', '.join(token.scopes)}")
