"""Check the names of clusters on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rainbow_sched.cli.shell.messages import print_message
from rainbow_sched.model.errors import Denied, NotFound, Unauthenticated
from rainbow_sched.model.hints import nearest

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import JobClient
    from rainbow_sched.model.job import Terms


async def check_clusters(client: JobClient, terms: Terms) -> None:
    """Raise NotFound for an unknown cluster in -M, and warn of one in --not."""
    if not terms.only_clusters and not terms.not_clusters:
        return
    from rainbow_sched.client.clusters import ClusterClient

    try:
        known = {cluster.name for cluster in await ClusterClient(client.connection).clusters()}
    except (Denied, Unauthenticated):
        return  # a user may submit to clusters without the right to list them
    for name in terms.only_clusters:
        if name not in known:
            raise NotFound(unknown_cluster(name, known))
    for name in terms.not_clusters:
        if name not in known:
            print_message(f"warning: --not {name}: {unknown_cluster(name, known)}")


def unknown_cluster(name: str, known: set[str]) -> str:
    """Return the message for an unknown cluster, with a suggestion."""
    near = nearest(name, known, cutoff=0.75)
    hint = f"did you mean {near}?" if near else "`rainbow clusters` lists those you may see"
    return f"there is no cluster {name!r}; {hint}"
