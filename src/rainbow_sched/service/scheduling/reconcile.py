"""Reconcile memory with the store after a commit whose outcome is unknown.

Such a write may have assigned, ended or queued jobs, or changed clusters, and its effects were not
applied. The caller may not retry, so the server compares itself as soon as the store answers.
"""

from __future__ import annotations

import logging

from rainbow_sched.service.agents.host_binding import nodes_of
from rainbow_sched.service.clusters.loader import load_cluster, load_jobs
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.restore import reload
from rainbow_sched.store.base import Tx
from rainbow_sched.store.records import PlacedAttempt

log = logging.getLogger(__name__)


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
            await load_cluster(core, cluster)


async def _reconcile_attempts(core: Core, name: str, ended: set[str]) -> None:
    """Reserve for attempts that memory does not know, and release those that ended unnoticed."""
    member, stored = core.fleet.get(name), await core.store.read(lambda tx: tx.placed_attempts(name))
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
