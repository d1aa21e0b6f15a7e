"""`rainbow drain` and `undrain`: stop new jobs on clusters, and allow them again."""

from __future__ import annotations

import click

from rainbow_sched.cli.shell.connect import Connector, connected

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
    connector.call_each(
        names,
        lambda client, name: client.drain(name, reason=reason),
        lambda name, cluster: f"{name} is {cluster.standing}",
    )


@click.command(epilog=UNDRAIN_EPILOG)
@click.argument("names", nargs=-1, required=True)
@connected
def undrain(connector: Connector, names: tuple[str, ...]) -> None:
    """Allow new jobs on the clusters NAMES again."""
    connector.call_each(
        names, lambda client, name: client.undrain(name), lambda name, cluster: f"{name} is {cluster.standing}"
    )
