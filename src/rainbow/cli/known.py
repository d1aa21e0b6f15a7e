"""Names of clusters on the command line: one that does not exist is a mistake, not a job that waits for ever."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rainbow.cli.report import say
from rainbow.model.errors import Denied, NotFound, Unauthenticated

if TYPE_CHECKING:
    from rainbow.client import AsyncClient
    from rainbow.model.job import Terms


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
            raise NotFound(_missing(name, known))
    for name in terms.not_clusters:
        if name not in known:
            say(f"warning: --not {name}: {_missing(name, known)}")


def _missing(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]}?" if near else "`rainbow clusters` lists those you may see"
    return f"there is no cluster {name!r}; {hint}"
