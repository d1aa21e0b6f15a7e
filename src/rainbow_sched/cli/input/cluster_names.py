"""Names of clusters on the command line: one that does not exist is a mistake, not a job that waits for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rainbow_sched.cli.shell.messages import say
from rainbow_sched.model.errors import Denied, NotFound, Unauthenticated
from rainbow_sched.model.hints import nearest

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.model.job import Terms


async def need_clusters(client: AsyncClient, terms: Terms) -> None:
    """Refuse -M with a name that the server does not know, and warn of such a --not, which holds by itself."""
    if not terms.only_clusters and not terms.not_clusters:
        return
    try:
        known = {cluster.name for cluster in await client.clusters()}
    except (Denied, Unauthenticated):
        return  # who may not list clusters may still submit to them
    for name in terms.only_clusters:
        if name not in known:
            raise NotFound(missing(name, known))
    for name in terms.not_clusters:
        if name not in known:
            say(f"warning: --not {name}: {missing(name, known)}")


def missing(name: str, known: set[str]) -> str:
    """What to say of a cluster that is not there."""
    near = nearest(name, known, cutoff=0.75)
    hint = f"did you mean {near}?" if near else "`rainbow clusters` lists those you may see"
    return f"there is no cluster {name!r}; {hint}"
