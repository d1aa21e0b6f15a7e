"""Rules of clusters: set, cached, and applied to every placement query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.cluster_rules import ClusterRules
from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.job import Hold
from rainbow_sched.model.match import Fit
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.service.access.audit import acting
from rainbow_sched.service.access.principals import may
from rainbow_sched.service.clusters.registration import require_cluster
from rainbow_sched.service.core import Core
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx

ClusterRefusals = dict[str, tuple[Fit, str]]
JOBS_PER_READ = 10_000  # bounds the memory of one read


def apply_rules(
    core: Core, owner: str, request: PreparedRequest, *, signed: bool
) -> tuple[frozenset[str], ClusterRefusals]:
    """Return the clusters hidden from a job's owner, and those that refuse the job, with the reason."""
    hidden: set[str] = set()
    refused: ClusterRefusals = {}
    for name, rules in core.fleet.rules.items():
        if not admits(core, name, owner):
            hidden.add(name)
            continue
        why = rules.refuses(
            request.request,
            per_node=core.fleet.cores_per_node(name) if rules.max_nodes is not None else 1.0,
            signed=signed,
            queued=core.fleet.live_jobs_of(name, owner),
        )
        if why is not None:
            refused[name] = why
    return frozenset(hidden), refused


def admits(core: Core, cluster: str, owner: str) -> bool:
    """Return True if jobs of this owner may go to the cluster."""
    rules = core.fleet.rules.get(cluster)
    return rules is None or rules.admits(owner, core.group_cache.groups_of(owner)) or core.group_cache.is_admin(owner)


def sees(core: Core, by: Principal, cluster: str) -> bool:
    """Return True if the caller may know of a cluster: as its agent, or because its jobs may go there."""
    if by.admin or may(by, "agent", cluster):
        return True
    if not may(by, "submit", cluster):
        return False
    rules = core.fleet.rules.get(cluster)
    return rules is None or rules.admits(by.name, by.groups)


def visible_to(core: Core, by: Principal, cluster: str) -> bool:
    """Return the same for the prototype's anonymous calls, which see clusters open to all."""
    if by.kind is not None:
        return sees(core, by, cluster)
    rules = core.fleet.rules.get(cluster)
    return rules is None or rules.admits("", ())


def visible_rules(by: Principal, cluster: Cluster) -> Mapping[str, object]:
    """Return the rules that the caller may see; users and groups only for those who manage the cluster."""
    if by.admin or may(by, "agent", cluster.name):
        return cluster.rules
    return {key: value for key, value in cluster.rules.items() if key not in ("users", "groups")}


async def set_rules(core: Core, name: str, changes: Mapping[str, object], *, clear: bool = False) -> Cluster:
    """Change a cluster's rules; `clear`: start with none. Jobs on the cluster stay there."""
    by, now = acting(), core.clock.now()
    core.fleet.member(name)
    before = bool(core.fleet.rules)

    def work(tx: Tx, fx: Effects) -> Cluster:
        cluster = require_cluster(tx, name)
        rules = ClusterRules() if clear else ClusterRules.of(cluster.rules)
        rules_json = replace(rules, **changes).to_json()  # type: ignore[arg-type]  # the caller's keys are the fields
        groups = ClusterRules.of(rules_json).groups
        unknown = set(groups) - {group.name for group in tx.groups(groups)}
        if unknown:
            raise NotFound(f"there is no group {min(unknown)!r}; add one with: rainbow group add {min(unknown)}")
        changed = tx.update_cluster(cluster.id, rules=rules_json)
        by.note(
            tx, "cluster.rules", name, now, ", ".join(f"{key} {value}" for key, value in rules_json.items()) or "none"
        )
        fx.changed(changed)
        return changed

    cluster = await core.write(work)
    await refresh_groups(core)
    if before != bool(core.fleet.rules):  # only with rules does the shape of a pending job depend on its owner
        async for page in core.held_jobs(Hold.NOTHING_FITS, JOBS_PER_READ):
            core.pending.add_all(core.fleet, page)
        core.pending.changed()
    return cluster


async def refresh_groups(core: Core) -> None:
    """Reload the group cache and retry pending jobs, after an account or the first rules changed."""
    if core.fleet.rules:
        await core.group_cache.refresh(core.store)
        core.pending.retry_all()
