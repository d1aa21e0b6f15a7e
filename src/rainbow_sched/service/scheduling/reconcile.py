"""After a commit whose answer was lost: look what is stored, and bring the memory up to it.

Such a write may have given jobs to clusters, ended attempts, queued jobs, or changed, added or
removed a cluster, and nothing of it was carried out in memory. Whoever asked for it is told to
ask again, but may not; so this looks itself, as soon as the store answers.
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
    """Do what was left undone because nobody heard of a commit; if the store is away still, it is left for later."""
    if not core.commit_outcome_unknown:
        return
    unheard, core.unheard, core.commit_outcome_unknown = core.unheard, [], False
    try:
        await core.commit(lambda tx: None)  # writes come one after another: the one in doubt is over after this
        await _clusters(core)
        for name in core.fleet.names():
            ended = {fence for effects in unheard for cluster, fence in effects.released if cluster == name}
            await _attempts(core, name, ended)
        await load_jobs(core)
        await reload(core)
    except BaseException:
        core.unheard, core.commit_outcome_unknown = unheard + core.unheard, True
        raise
    log.warning("the answer to a commit was lost; what is in memory was compared with what is stored")
    everybody = set(core.fleet.names())
    core.apply_effects(Effects(wake=everybody, events=True, output=True, unsettled=True))


async def _clusters(core: Core) -> None:
    """Take in what was registered or changed, and forget what was removed."""
    before = [core.fleet.member(name).cluster for name in core.fleet.names()]
    stored = {cluster.name: cluster for cluster in await core.store.read(lambda tx: tx.clusters())}
    gone = [old.name for old in before if old.name not in stored or stored[old.name].id != old.id]
    gone = [name for name in gone if (member := core.fleet.get(name)) is not None and member.cluster in before]
    core.apply_effects(Effects(removed=gone, clusters=stored))
    for name, cluster in stored.items():
        if core.fleet.get(name) is None:
            await load_cluster(core, cluster)


async def _attempts(core: Core, name: str, ended: set[str]) -> None:
    """Count attempts that were given to a cluster unheard, and let go of those that ended so."""
    member, stored = core.fleet.get(name), await core.store.read(lambda tx: tx.placed_attempts(name))
    if member is None:
        return
    left = ended - {attempt.token for attempt in stored}
    core.apply_effects(Effects(released=[(name, fence) for fence in sorted(left)]))
    for attempt in stored:
        if attempt.nodes and attempt.token in member.placements:
            core.fleet.follow(name, attempt.token, nodes_of(attempt.nodes))
    uncounted = [attempt for attempt in stored if attempt.token not in member.placements]
    if not uncounted:
        return
    # One of them may have ended since. What ends after this write leaves the fleet after it, too.
    live = await core.commit(lambda tx: _live(tx, uncounted))
    for attempt in uncounted:
        if attempt.token in live and attempt.spec is not None and attempt.token not in member.placements:
            core.fleet.place(name, attempt.token, core.request_of(attempt.spec), attempt.owner)
            if attempt.nodes:
                core.fleet.follow(name, attempt.token, nodes_of(attempt.nodes))


def _live(tx: Tx, placed: list[PlacedAttempt]) -> set[str]:
    return {attempt.token for one in placed for attempt in tx.attempts(one.job) if attempt.state.live}
