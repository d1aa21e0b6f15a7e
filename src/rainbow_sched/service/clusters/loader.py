"""Load stored clusters with their graphs, and pending jobs, into memory."""

from __future__ import annotations

import logging
from functools import partial

from rainbow_sched.graphs.formats.packed_graph import unpack, unpack_subsystem
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import Hold
from rainbow_sched.service.clusters.registration import DOMINANT
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx, WaitingJob

log = logging.getLogger(__name__)
JOBS_PER_READ = 200_000


async def load_cluster(core: Core, cluster: Cluster) -> bool:
    """Load a stored cluster into the fleet; return False if its graph is damaged, and list it as such."""
    try:
        graphs = await core.store.read(lambda tx: tx.graphs(cluster.id))
        graph = unpack(graphs[DOMINANT])
        subsystems = [unpack_subsystem(data) for name, data in graphs.items() if name != DOMINANT]
        core.fleet.add(cluster, graph, subsystems)
    except (RainbowError, KeyError) as error:  # a damaged cluster must not stop the others
        log.error("cluster %s: its stored graph cannot be used: %s", cluster.name, error)
        core.fleet.add_broken(cluster, str(error) or "it is missing")
        return False
    return True


async def load_jobs(core: Core) -> None:
    """Load the jobs that wait for a decision; those in memory stay as they are."""
    after, known = 0, set(core.pending.queued)
    while page := await core.store.read(partial(_queued, after)):
        core.pending.add_queued(id for id in page if id not in known)
        after = page[-1]
    after = 0
    while waiting := await core.store.read(partial(_waiting, after)):
        core.pending.add_all(core.fleet, [one for one in waiting if core.pending.group_of(one.job) is None])
        after = waiting[-1].job
    core.pending.changed()


def _queued(after: int, tx: Tx) -> list[int]:
    return tx.queued_ids(JOBS_PER_READ, after)


def _waiting(after: int, tx: Tx) -> list[WaitingJob]:
    return tx.waiting(Hold.NOTHING_FITS, JOBS_PER_READ, after)
