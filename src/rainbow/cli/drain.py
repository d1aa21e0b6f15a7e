"""`rainbow drain` and `undrain`: keep new work away from a cluster, and let it come again."""

from __future__ import annotations

import click

from rainbow.cli.link import Link, connected

DRAIN_EPILOG = """\b
Examples:
  rainbow drain perl -m "maintenance at noon"
  rainbow drain corona eks
"""
UNDRAIN_EPILOG = """\b
Example:
  rainbow undrain perl
"""


@click.command(epilog=DRAIN_EPILOG)
@click.argument("names", nargs=-1, required=True)
@click.option("-m", "--message", "--reason", "reason", default="", help="Why; shown by rainbow clusters.")
@connected
def drain(link: Link, names: tuple[str, ...], reason: str) -> None:
    """Give the clusters NAMES no new work. What runs there runs to its end; what waits goes elsewhere."""
    for name in names:
        view = link.ask(lambda client, name=name: client.drain(name, reason=reason))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        click.echo(f"{view.name} is {view.standing}")


@click.command(epilog=UNDRAIN_EPILOG)
@click.argument("names", nargs=-1, required=True)
@connected
def undrain(link: Link, names: tuple[str, ...]) -> None:
    """Give the clusters NAMES new work again."""
    for name in names:
        view = link.ask(lambda client, name=name: client.undrain(name))  # type: ignore[misc]  # as above
        click.echo(f"{view.name} is {view.standing}")
