"""Where a job's shape could run, ignoring other jobs: nodes, partitions, racks.

Slurm accepts a job that exceeds a partition's limits and leaves it pending, and `sbatch --test-only` gives it a start
time. So the limits are checked here.

`--switches=1` is not sufficient for a job in one rack: Slurm ignores it without a topology and drops it after some
minutes, and the racks of the graph need not be Slurm's switches. So the agent chooses a rack, and Slurm chooses among
its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.common.host_binding import bound_hosts
from rainbow_sched.agent.backends.slurm.shape import RACK, SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite, closed
from rainbow_sched.discovery.slurm import SlurmNode, SlurmPartition, mark
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.graph import Graph, Mark
from rainbow_sched.model.quantities import human_bytes


def lacks(found: SlurmShape, nodes: Sequence[SlurmNode]) -> str | None:
    """Return why `found` can never run on these nodes, or None."""
    allowed = [node for node in nodes if _allowed(found, node)]
    if found.nodes is not None:
        fit = sum(_times(found, node) > 0 for node in allowed)
        if fit >= found.nodes:
            return None
        return f"{found.nodes} nodes with {_asked(found)} are needed, {fit} of {len(nodes)} could be: {_largest(nodes)}"
    places = sum(_times(found, node) for node in allowed)
    gpus = sum(_gpus(found, node) for node in allowed)
    if places >= found.slots and gpus >= found.gpus_in_all:
        return None
    return f"{found.slots} times {_asked(found)} are needed, there is room for {places}: {_largest(nodes)}"


def _allowed(found: SlurmShape, node: SlurmNode) -> bool:
    in_partition = not found.partition or found.partition in node.partitions
    return in_partition and node.name not in found.exclude and found.features.issubset(node.features)


def _times(found: SlurmShape, node: SlurmNode) -> int:
    """Return how many nodes or slots of the shape fit into this node."""
    fits = [node.cores // max(1, found.cores)]
    if found.memory:
        fits.append(node.memory // found.memory)
    if found.gpus:
        fits.append(_gpus(found, node) // found.gpus)
    for name, many in found.gres:
        fits.append(sum(gres.count for gres in node.gres if gres.name == name) // many)
    return min(fits)


def _gpus(found: SlurmShape, node: SlurmNode) -> int:
    kind = found.gpu_kind
    return sum(gres.count for gres in node.gres if gres.name == "gpu" and kind in ("", gres.kind))


def _asked(found: SlurmShape) -> str:
    parts = [f"{max(1, found.cores)} core"]
    if found.gpus:
        parts.append(f"{found.gpus} gpu{f' ({found.gpu_kind})' if found.gpu_kind else ''}")
    parts += [f"{many} {name}" for name, many in found.gres]
    if found.memory:
        parts.append(f"{human_bytes(found.memory << 20)} memory")
    parts += [f"feature {name}" for name in sorted(found.features)]
    return ", ".join(parts)


def _largest(nodes: Sequence[SlurmNode]) -> str:
    if not nodes:
        return "there are no nodes"
    gpus = max(sum(gres.count for gres in node.gres if gres.name == "gpu") for node in nodes)
    parts = [f"{max(node.cores for node in nodes)} core", f"{gpus} gpu" if gpus else ""]
    parts.append(f"{human_bytes(max(node.memory for node in nodes) << 20)} memory")
    return "a node has at most " + ", ".join(part for part in parts if part)


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


def within_racks(found: SlurmShape, site: SlurmSite, nodes: Sequence[SlurmNode]) -> list[SlurmShape]:
    """Return the shape restricted to each rack, racks with free room and most free cores first.

    A shape that may span racks is returned as it is. Racks without usable nodes are skipped. Raise `CannotBind` if
    Slurm knows no node of any rack.
    """
    if not found.one_rack:
        return [found]
    racks = _racks(site.graph)
    known, unknown = bound_hosts([name for names in racks for name in names], site.nodes, "Slurm")
    there = set(known).difference(found.exclude)
    if found.nodes == 1 or (found.nodes is None and found.slots == 1 and not found.gpus_in_all):
        racks = [[name for names in racks for name in names]]  # one node is in one rack
    shapes = []
    for names in racks:
        left = there.intersection(names)
        if left:
            exclude = frozenset(name for name in site.nodes if name not in left)
            only = tuple(name for name in site.nodes if name in left)
            shapes.append(replace(found, exclude=exclude, only=only, unknown=found.unknown or unknown))
    free = [_rest(node) for node in nodes if mark(node) is Mark.UP and node.cpus_alloc < node.cpus_usable]
    return sorted(shapes, key=lambda one: (lacks(one, free) is not None, -_free_cores(one, free)))


def _racks(graph: Graph) -> list[list[str]]:
    """Return the node names of each rack, without names that occur in two racks."""
    members: dict[int, list[str]] = {i: [] for i, type in enumerate(graph.types) if type == RACK}
    for i, type in enumerate(graph.types):
        at = graph.parents[i] if type == "node" else -1
        while at >= 0 and at not in members:
            at = graph.parents[at]
        if at >= 0:
            members[at].append(graph.names[i] or graph.ids[i])
    many = Counter(name for names in members.values() for name in set(names))
    return [[name for name in names if many[name] == 1] for names in members.values()]


def _rest(node: SlurmNode) -> SlurmNode:
    """Return a node with only its free resources; a node in use stays unavailable for exclusive jobs."""
    return replace(node, cpus_usable=node.cpus_usable - node.cpus_alloc, memory=max(0, node.memory - node.memory_alloc))


def _free_cores(found: SlurmShape, free: Sequence[SlurmNode]) -> int:
    return sum(node.cores for node in free if node.name not in found.exclude)
