"""Partitions in which a job could run: their limits, access and nodes.

Slurm accepts a job that exceeds a partition's limits and leaves it pending, and `sbatch --test-only` gives it a start
time. So the limits are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.slurm.capacity import lacks
from rainbow_sched.agent.backends.slurm.shape import SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite
from rainbow_sched.discovery.slurm import SlurmNode, SlurmPartition
from rainbow_sched.model.errors import Unsupported


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """Properties of a job, beside its shape, that partitions limit."""

    partition: str = ""  # one or several with commas; empty: not specified
    account: str = ""
    duration: float | None = None


def pick(found: SlurmShape, site: SlurmSite, nodes: Sequence[SlurmNode], asked: PartitionRequest) -> str:
    """Return partitions for sbatch; empty: the default one. Raise `Unsupported` if the job fits in none."""
    if asked.partition:
        names = asked.partition.split(",")
        reasons = {name: _refusal(found, site, name, nodes, asked) for name in names}
        fit = [name for name, reason in reasons.items() if reason is None]
        if not fit:
            raise Unsupported(next(reason for reason in reasons.values() if reason is not None))
        return ",".join(fit)
    default = next((name for name, rule in site.rules.items() if rule.default), "")
    first = _refusal(found, site, default, nodes, asked) if default else "it fits no partition, and none is the default"
    if first is None:
        return ""
    others = [name for name in site.rules if name != default and _refusal(found, site, name, nodes, asked) is None]
    if not others:
        raise Unsupported(lacks(found, nodes) or first)
    return ",".join(others)


def _refusal(
    found: SlurmShape, site: SlurmSite, name: str, nodes: Sequence[SlurmNode], asked: PartitionRequest
) -> str | None:
    """Return why the job cannot run in this partition, or None."""
    rule = site.rules.get(name)
    if rule is None:
        raise Unsupported(f"no partition {name!r}; this cluster has {', '.join(sorted(site.rules))}")
    broken = closed(rule, site.groups) or _breaks(found, rule, asked)
    if broken is not None:
        return f"partition {name} {broken}"
    reason = lacks(replace(found, partition=name), nodes)
    return None if reason is None else f"in partition {name}: {reason}"


def closed(rule: SlurmPartition, groups: frozenset[str]) -> str | None:
    """Return why our user cannot use a partition, or None. `groups`: those of the user; empty: not known."""
    if not rule.up:
        return f"is not available: {rule.state.lower()}"
    if rule.groups and groups and groups.isdisjoint(rule.groups):
        return f"is for the groups {', '.join(rule.groups)} only"
    return None


def _breaks(found: SlurmShape, rule: SlurmPartition, asked: PartitionRequest) -> str | None:
    if rule.limit is not None and asked.duration is not None and asked.duration > rule.limit:
        return f"runs jobs of {_say(rule.limit)} at most, not {_say(asked.duration)}"
    if asked.account in rule.not_accounts:
        return f"is not for the account {asked.account}"
    if rule.accounts and asked.account not in rule.accounts:
        named = f"not {asked.account}" if asked.account else "and the job names none (option account)"
        return f"is for the accounts {', '.join(rule.accounts)}, {named}"
    if found.nodes is not None and rule.max_nodes is not None and found.nodes > rule.max_nodes:
        return f"gives a job {rule.max_nodes} nodes at most, not {found.nodes}"
    if found.nodes is not None and found.nodes < rule.min_nodes:
        return f"gives a job {rule.min_nodes} nodes at least, not {found.nodes}"
    if rule.max_cpus is not None and found.cores > rule.max_cpus:
        return f"gives a job {rule.max_cpus} cpus of a node at most, not {found.cores}"
    return None


def _say(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds < 7200 else f"{seconds / 3600:g} h"


def unreachable(site: SlurmSite, nodes: Sequence[SlurmNode]) -> set[str]:
    """Return the nodes that are in no usable partition."""
    usable = {name for name, rule in site.rules.items() if closed(rule, site.groups) is None}
    return {node.name for node in nodes if usable.isdisjoint(node.partitions)}
