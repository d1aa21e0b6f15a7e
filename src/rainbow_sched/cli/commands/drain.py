"""`rainbow drain` and `undrain`: stop new jobs on clusters, and allow them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient
    from rainbow_sched.client.clusters import ClusterInfo

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
@click.option("-m", "--message", "--reason", "reason", default="", help="Reason, shown by rainbow clusters.")
@connected
def drain(connector: Connector, names: tuple[str, ...], reason: str) -> None:
    """Stop new jobs on the clusters NAMES. Running jobs continue; waiting jobs go to other clusters."""

    async def each(client: AsyncClient) -> None:
        for name in names:
            _show(await client.drain(name, reason=reason))

    connector.call(each)


@click.command(epilog=UNDRAIN_EPILOG)
@click.argument("names", nargs=-1, required=True)
@connected
def undrain(connector: Connector, names: tuple[str, ...]) -> None:
    """Allow new jobs on the clusters NAMES again."""

    async def each(client: AsyncClient) -> None:
        for name in names:
            _show(await client.undrain(name))

    connector.call(each)


def _show(cluster: ClusterInfo) -> None:
    click.echo(f"{cluster.name} is {cluster.standing}")
