"""`rainbow delete`: delete a cluster, or one of its subsystems."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.graph_files import cluster_settings
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.client.config import Config, save
from rainbow_sched.model.errors import Conflict, NotFound, Unauthenticated

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient
    from rainbow_sched.client.clusters import DeletionInfo

POLL_SECONDS = 0.5  # between two checks whether the cluster has left

EPILOG = """\b
Examples:
  rainbow delete perl
  rainbow delete perl --jobs cancel        cancel running jobs first
  rainbow delete perl --subsystem io
"""


@click.command(epilog=EPILOG)
@click.argument("cluster", metavar="[NAME]", required=False)
@click.option("--cluster-name", "--cluster", "named", metavar="NAME", help="The cluster (the prototype's option).")
@click.option("--delete-subsystem", "--subsystem", "subsystem", default="", metavar="NAME", help="Only this subsystem.")
@click.option(
    "--jobs",
    type=click.Choice(["wait", "cancel", "lose"]),
    help="If jobs run there: wait until they have ended, cancel them first, or lose them.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the last of them has ended.")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@click.option("--delete-secret", metavar="TEXT", help="The secret (visible to other users of the machine).")
@connected
def delete(
    connector: Connector,
    cluster: str | None,
    named: str | None,
    subsystem: str,
    jobs: str | None,
    no_wait: bool,
    secret_file: str | None,
    delete_secret: str | None,
) -> None:
    """Delete the cluster NAME (default: the config's), or one subsystem of it.

    Jobs that have not started there go to other clusters. While jobs run there, --jobs is required. A cluster that is
    registered under the same name later starts clean.
    """
    if cluster and named and cluster != named:
        raise click.UsageError(f"name one cluster: {cluster} or {named}")
    settings, name = cluster_settings(connector.settings(), cluster or named, secret_file, delete_secret)
    if subsystem not in ("", "cluster"):  # the prototype's word for the whole cluster
        connector.call(lambda client: client.delete_subsystem(name, subsystem), settings)
        click.echo(f"deleted subsystem {subsystem} of {name}")
        return

    async def delete_cluster(client: AsyncClient) -> DeletionInfo:
        deletion = await client.delete_cluster(name, jobs=jobs or "")
        if deletion.running:
            click.echo(f"{name} gets no new jobs; it is deleted when its {deletion.running} running jobs have ended")
            if not no_wait:
                await _wait_until_deleted(client, name)
        return deletion

    deletion = connector.call(delete_cluster, settings)
    if not (deletion.running and no_wait):
        click.echo(f"deleted {name}" + (f"; {deletion.moved} jobs go to another cluster" if deletion.moved else ""))
        _remove_credentials(settings.config, name)


def _remove_credentials(config: Config, name: str) -> None:
    """Remove the cluster's credentials from the config file; the server rejects calls with invalid credentials."""
    left = config.without_cluster(name)
    if config.path is not None and left is not config:
        save(left, config.path)
        print_message(f"removed its credentials from {config.path}")


async def _wait_until_deleted(client: AsyncClient, name: str) -> None:
    with contextlib.suppress(NotFound, Unauthenticated):  # its own secret is deleted too
        while True:
            if (await client.cluster(name)).standing != "leaving":
                raise Conflict(f"{name} is not deleted: it was undrained")
            await asyncio.sleep(POLL_SECONDS)
