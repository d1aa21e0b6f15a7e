"""`rainbow delete`: remove a cluster, or one of its subsystems."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.shell.connect import Link, connected
from rainbow_sched.model.errors import Conflict, NotFound, Unauthenticated

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.config import Config
    from rainbow_sched.client.views import DeletionInfo

LOOK_EVERY = 0.5  # seconds

EPILOG = """\b
Examples:
  rainbow delete perl
  rainbow delete perl --jobs cancel        jobs that run there are cancelled first
  rainbow delete perl --subsystem io
"""


@click.command(epilog=EPILOG)
@click.argument("cluster", metavar="[NAME]", required=False)
@click.option("--cluster-name", "--cluster", "named", metavar="NAME", help="The cluster, as the prototype names it.")
@click.option("--delete-subsystem", "--subsystem", "subsystem", default="", metavar="NAME", help="Only this subsystem.")
@click.option(
    "--jobs",
    type=click.Choice(["wait", "cancel", "lose"]),
    help="If jobs run there: delete it when they have ended, cancel them first, or give them up.",
)
@click.option("--no-wait", is_flag=True, help="Do not stay until the last of them has ended.")
@click.option("--secret-file", metavar="FILE", help="File that holds the cluster's secret (default: the config's).")
@click.option("--delete-secret", metavar="TEXT", help="The secret (others on the machine can read it).")
@connected
def delete(
    link: Link,
    cluster: str | None,
    named: str | None,
    subsystem: str,
    jobs: str | None,
    no_wait: bool,
    secret_file: str | None,
    delete_secret: str | None,
) -> None:
    """Delete the cluster NAME (default: the config's), or one subsystem of it.

    Jobs that have not begun there go elsewhere. While jobs run there it is not deleted unless --jobs says what is to
    become of them. A name that is registered again later inherits nothing.
    """
    from rainbow_sched.cli.input.graph_files import given_secret, with_cluster

    if cluster and named and cluster != named:
        raise click.UsageError(f"name one cluster: {cluster} or {named}")
    settings, chosen = with_cluster(link.settings(), cluster or named, given_secret(delete_secret, secret_file))
    if subsystem not in ("", "cluster"):  # the prototype's word for the whole cluster
        link.ask(lambda client: client.delete_subsystem(chosen, subsystem), settings)
        click.echo(f"deleted subsystem {subsystem} of {chosen}")
        return

    async def asking(client: AsyncClient) -> DeletionInfo:
        left = await client.delete_cluster(chosen, jobs=jobs or "")
        if left.running:
            click.echo(f"{chosen} takes no new work; it is deleted when its {left.running} running jobs have ended")
            if not no_wait:
                await _gone(client, chosen)
        return left

    left = link.ask(asking, settings)
    if not (left.running and no_wait):
        click.echo(f"deleted {chosen}" + (f"; {left.moved} jobs go to another cluster" if left.moved else ""))
        _forget(settings.config, chosen)


def _forget(config: Config, name: str) -> None:
    """Take the cluster's credentials out of the config file: the server refuses whoever shows one that is void."""
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.client.config import save

    left = config.without_cluster(name)
    if config.path is not None and left is not config:
        save(left, config.path)
        say(f"its credentials are no longer in {config.path}")


async def _gone(client: AsyncClient, name: str) -> None:
    """Return when a cluster is there no more."""
    with contextlib.suppress(NotFound, Unauthenticated):  # its own secret goes with it
        while True:
            if (await client.cluster(name)).standing != "leaving":
                raise Conflict(f"{name} is not deleted: somebody gave it work again")
            await asyncio.sleep(LOOK_EVERY)
