"""`rainbow drain` and `undrain`: keep new work away from a cluster, and let it come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import ClusterInfo

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

    async def each(client: AsyncClient) -> None:
        for name in names:
            _show(await client.drain(name, reason=reason))

    link.ask(each)


@click.command(epilog=UNDRAIN_EPILOG)
@click.argument("names", nargs=-1, required=True)
@connected
def undrain(link: Link, names: tuple[str, ...]) -> None:
    """Give the clusters NAMES new work again."""

    async def each(client: AsyncClient) -> None:
        for name in names:
            _show(await client.undrain(name))

    link.ask(each)


def _show(cluster: ClusterInfo) -> None:
    click.echo(f"{cluster.name} is {cluster.standing}")
