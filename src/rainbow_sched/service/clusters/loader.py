"""Load clusters, placements and pending jobs from the store into memory, and reconcile memory with the store.

The outcome of a commit may be unknown: it may have assigned, ended or queued jobs, or changed clusters, and its effects
were not applied. The caller may not retry, so the server compares itself as soon as the store answers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from functools import partial

from rainbow_sched.graphs.formats.packed_graph import unpack, unpack_subsystem
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import Hold
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.service.agents.host_binding import nodes_of
from rainbow_sched.service.clusters.registration import DOMINANT
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.restore import reload
from rainbow_sched.store.base import Tx
from rainbow_sched.store.records import PlacedAttempt

log = logging.getLogger(__name__)
JOBS_PER_READ = 200_000  # bounds the memory of one read while the server starts


async def load_fleet(core: Core) -> None:
    """Load all clusters with what is placed on them, at the start."""
    for cluster in await core.store.read(lambda tx: tx.clusters()):
        if await _load_cluster(core, cluster):
            reported = cluster.state_at if cluster.state_at is not None else math.inf
            stored = await _placed_attempts(core, cluster.name)
            core.fleet.place_all(cluster.name, _placed(core, cluster.name, stored, reported))


async def _placed_attempts(core: Core, cluster: str) -> list[PlacedAttempt]:
    return await core.store.read(lambda tx: tx.placed_attempts(cluster))


def _placed(
    core: Core, cluster: str, stored: list[PlacedAttempt], reported: float
) -> Iterator[tuple[str, PreparedRequest, str, bool, tuple[str, ...]]]:
    for job, token, created_at, spec, owner, nodes in stored:
        if spec is None:  # never offered again; a running attempt goes on uncounted
            log.error("job %d on %s: its stored request is damaged", job, cluster)
        else:
            yield token, core.request_of(spec), owner, created_at <= reported, nodes_of(nodes)


async def _load_cluster(core: Core, cluster: Cluster) -> bool:
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
    while ids := await core.store.read(partial(_queued, after)):
        core.pending.add_queued(id for id in ids if id not in known)
        after = ids[-1]
    async for page in core.held_jobs(Hold.NOTHING_FITS, JOBS_PER_READ):
        core.pending.add_all(core.fleet, [one for one in page if core.pending.group_of(one.job) is None])
    core.pending.changed()


def _queued(after: int, tx: Tx) -> list[int]:
    return tx.queued_ids(JOBS_PER_READ, after)


async def reconcile_after_unknown_commit(core: Core) -> None:
    """Bring memory up to the store after unknown commits; on failure everything is left for the next call."""
    if not core.commit_outcome_unknown:
        return
    unconfirmed, core.unconfirmed_effects, core.commit_outcome_unknown = core.unconfirmed_effects, [], False
    try:
        await core.commit(lambda tx: None)  # writes are serial: the unknown one is over now
        await _reconcile_clusters(core)
        for name in core.fleet.names():
            ended = {fence for effects in unconfirmed for cluster, fence in effects.released if cluster == name}
            await _reconcile_attempts(core, name, ended)
        await load_jobs(core)
        await reload(core)
    except BaseException:
        core.unconfirmed_effects, core.commit_outcome_unknown = unconfirmed + core.unconfirmed_effects, True
        raise
    log.warning("the outcome of a commit was unknown; memory was reconciled with the store")
    names = set(core.fleet.names())
    core.apply_effects(Effects(wake=names, events=True, output=True, unsettled=True))


async def _reconcile_clusters(core: Core) -> None:
    """Add clusters that were registered or changed, and remove those that are gone."""
    before = [core.fleet.member(name).cluster for name in core.fleet.names()]
    stored = {cluster.name: cluster for cluster in await core.store.read(lambda tx: tx.clusters())}
    gone = [old.name for old in before if old.name not in stored or stored[old.name].id != old.id]
    gone = [name for name in gone if (member := core.fleet.get(name)) is not None and member.cluster in before]
    core.apply_effects(Effects(removed=gone, clusters=stored))
    for name, cluster in stored.items():
        if core.fleet.get(name) is None:
            await _load_cluster(core, cluster)


async def _reconcile_attempts(core: Core, name: str, ended: set[str]) -> None:
    """Reserve for attempts that memory does not know, and release those that ended unnoticed."""
    member, stored = core.fleet.get(name), await _placed_attempts(core, name)
    if member is None:
        return
    left = ended - {attempt.token for attempt in stored}
    core.apply_effects(Effects(released=[(name, fence) for fence in sorted(left)]))
    for attempt in stored:
        if attempt.nodes and attempt.token in member.placements:
            core.fleet.move_to_nodes(name, attempt.token, nodes_of(attempt.nodes))
    uncounted = [attempt for attempt in stored if attempt.token not in member.placements]
    if not uncounted:
        return
    # One may have ended since. An attempt that ends after this write also leaves the fleet after it.
    live = await core.commit(lambda tx: _live_tokens(tx, uncounted))
    for attempt in uncounted:
        if attempt.token in live and attempt.spec is not None and attempt.token not in member.placements:
            core.fleet.place(name, attempt.token, core.request_of(attempt.spec), attempt.owner)
            if attempt.nodes:
                core.fleet.move_to_nodes(name, attempt.token, nodes_of(attempt.nodes))


def _live_tokens(tx: Tx, placed: list[PlacedAttempt]) -> set[str]:
    return {attempt.token for one in placed for attempt in tx.attempts(one.job) if attempt.state.live}
