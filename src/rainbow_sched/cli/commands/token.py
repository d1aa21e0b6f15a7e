"""`rainbow token`: credentials made, listed, rotated and revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import document_output, output
from rainbow_sched.cli.render.listings import Column, Listing, listing_text
from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.cli.shell.lazy_group import Commands

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import NewToken

EPILOG = """\b
A token opens at most what its owner may; without --scope, all of it. Its text is
printed once and kept nowhere. Tokens live for 30 days unless --ttl says otherwise.

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
        Column("ID", lambda row: row["id"]),
        Column("KIND", lambda row: row["kind"]),
        Column("OWNER", lambda row: row["owner"]),
        Column("SCOPES", lambda row: ",".join(row.get("scopes", ()))),
        Column("EXPIRES", lambda row: row.get("expires_at", "")),
        Column("LAST USE", lambda row: row.get("used_at", "")),
        Column("REVOKED", lambda row: row.get("revoked_at", ""), wide=True),
        Column("NOTE", lambda row: row.get("note", ""), wide=True),
    ),
)


@click.group(cls=Commands, epilog=EPILOG)
def token() -> None:
    """Make, list, rotate and revoke tokens."""


@token.command(epilog="\b\nExample:\n  rainbow token create --scope submit:perl --ttl 7d > perl.token\n")
@click.option("--user", "owner", default="", metavar="NAME", help="Whose (default: yours). For administrators.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="What it opens; repeatable.")
@click.option("--ttl", metavar="TIME", help="How long it lives: 12h, 30d.")
@click.option("--note", default="", help="A note for the list.")
@click.option("--join", is_flag=True, help="Admits one cluster, once, within an hour.")
@click.option("--name", "pattern", metavar="PATTERN", help="With --join: the names it may register.")
@document_output()
@connected
def create(
    link: Link,
    owner: str,
    scopes: tuple[str, ...],
    ttl: str | None,
    note: str,
    join: bool,
    pattern: str | None,
    form: str,
) -> None:
    """Make a token; its text goes to stdout, once."""
    if pattern and not join:
        raise click.UsageError("--name goes with --join")
    asked = (*scopes, f"register:{pattern}") if pattern else scopes
    seconds = _seconds(ttl)
    made = link.ask(lambda client: client.create_token(owner=owner, scopes=asked, ttl=seconds, note=note, join=join))
    _show(made, form)


@token.command("list", epilog="\b\nExample:\n  rainbow token list --all -o json\n")
@click.option("--user", "owner", default="", metavar="NAME", help="Whose (default: yours).")
@click.option("--all", "everybody", is_flag=True, help="Everybody's. For administrators.")
@click.option("--dead", is_flag=True, help="With those that are revoked, expired or used up.")
@output
@connected
def listed(link: Link, owner: str, everybody: bool, dead: bool, form: str) -> None:
    """List tokens; their texts are kept nowhere."""
    found = link.ask(lambda client: client.tokens(owner=owner, everybody=everybody, dead=dead))
    click.echo(listing_text(LISTING, [one.as_dict() for one in found], form), nl=False)


@token.command(epilog="\b\nExample:\n  rainbow token revoke 3f9k2m1xq0ab\n")
@click.argument("ids", nargs=-1, required=True)
@connected
def revoke(link: Link, ids: tuple[str, ...]) -> None:
    """End the tokens IDS now; what is open by them is cut within a second."""

    async def each(client: AsyncClient) -> None:
        for id in ids:
            await client.revoke_token(id)
            click.echo(f"{id} is revoked")

    link.ask(each)


@token.command(epilog="\b\nExample:\n  rainbow token rotate 3f9k2m1xq0ab --grace 1h\n")
@click.argument("id", required=False, default="")
@click.option("--grace", metavar="TIME", help="How long the old one stays good (default: 10m).")
@document_output()
@connected
def rotate(link: Link, id: str, grace: str | None, form: str) -> None:
    """Make a new token in place of ID, by default of the one in use. For a while both are good."""
    seconds = _seconds(grace)
    _show(link.ask(lambda client: client.rotate_token(id, grace=seconds)), form)


@token.command(epilog="\b\nExample:\n  rainbow token renew perl\n")
@click.argument("clusters", nargs=-1, required=True)
@connected
def renew(link: Link, clusters: tuple[str, ...]) -> None:
    """Have the agents of CLUSTERS replace their secrets by themselves, within a minute. For administrators."""

    async def each(client: AsyncClient) -> None:
        for cluster in clusters:
            await client.ask_renewal(cluster)
            click.echo(f"the agent of {cluster} is asked")

    link.ask(each)


def _seconds(text: str | None) -> float:
    from rainbow_sched.jobspecs.reading.durations import parse_duration
    from rainbow_sched.model.errors import Invalid

    if text is None:
        return 0.0
    seconds = parse_duration(text)
    if seconds is None:
        raise Invalid("a token does not live for ever; write for example 30d")
    return seconds


def _show(made: NewToken, form: str) -> None:
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.shell.messages import say

    if form in MACHINE:
        document = {"schema": "rainbow.token/1", "text": made.text, "token": made.token.as_dict()}
        click.echo(document_text(document, form), nl=False)
        return
    click.echo(made.text)
    row = made.token.as_dict()
    once = ", one use" if made.token.uses_left == 1 else ""
    until = row.get("expires_at", "it is revoked")
    say(f"token {made.token.id} of {made.token.owner}{once}, good until {until}: {', '.join(made.token.scopes)}")
