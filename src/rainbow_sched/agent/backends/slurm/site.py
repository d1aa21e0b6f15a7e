"""Configuration of a Slurm site, and facts: free resources, queue depth, node states, use by others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.agent.backends.common.saved_names import MarkedNodes
from rainbow_sched.agent.backends.slurm.files import SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob
from rainbow_sched.agent.core.values import ClusterFacts, Phase
from rainbow_sched.discovery.slurm import (
    SlurmAllocation,
    SlurmNode,
    SlurmPartition,
    free_totals,
    nodes_not_up,
    used_by_others,
)
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import Graph

BACKFILL = "sched/backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite:
    graph: Graph
    types: frozenset[str]  # resource types in the graph
    gres: frozenset[str] = frozenset()  # gpu, fpga ...
    gpu_kinds: frozenset[str] = frozenset()
    features: Mapping[str, frozenset[str]] = field(default_factory=dict)  # name -> nodes
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rules: Mapping[str, SlurmPartition] = field(default_factory=dict)  # partitions' limits from Slurm
    groups: frozenset[str] = frozenset()  # of our user; empty: not known
    nodes: tuple[str, ...] = ()
    threaded: bool = False  # Slurm counts hardware threads as cpus
    shape: str = ""  # digest of the nodes
    config: Mapping[str, str] = field(default_factory=dict)  # controller configuration from `scontrol show config`

    @property
    def no_groups(self) -> str:
        """Return why jobs of several groups cannot run here; empty: they can."""
        plugin = self.config.get("SchedulerType", BACKFILL)
        if plugin == BACKFILL:
            return ""
        return f"Slurm starts heterogeneous jobs only with {BACKFILL}; this site uses {plugin}"

    @property
    def no_shared_steps(self) -> bool:
        """Return True if one srun cannot start tasks in several components."""
        return "disable_hetjob_steps" in self.config.get("SchedulerParameters", "").split(",")

    def default_memory(self, partition: str) -> str:
        """Return the option for the default memory of a partition; empty name: the default partition."""
        rules = self.rules.values()
        rule = self.rules.get(partition) or next((rule for rule in rules if rule.default), None)
        for about in (rule.memory if rule is not None else {}, self.config):
            for name, word in (("DefMemPerCPU", "--mem-per-cpu"), ("DefMemPerNode", "--mem")):
                if (amount := about.get(name, "")).isdecimal() and amount != "0":
                    return f"{word}={amount}M"
        return "--mem=0"

    def unreachable(self, nodes: Sequence[SlurmNode]) -> set[str]:
        """Return the nodes that are in no usable partition."""
        usable = {name for name, rule in self.rules.items() if closed(rule, self.groups) is None}
        return {node.name for node in nodes if usable.isdisjoint(node.partitions)}

    def facts(
        self, nodes: Sequence[SlurmNode], own: Iterable[tuple[SlurmJob, SlurmRecord]], marked: MarkedNodes, queued: int
    ) -> ClusterFacts:
        """Return the facts; `own` are our listed jobs with their records, `queued` is the number of pending jobs."""
        graph, away = self.graph, self.unreachable(nodes)
        listed = {node.name for node in nodes}
        known = [name for name, type in zip(graph.names, graph.types, strict=True) if type == "node" and name in listed]
        marks = marked.report(nodes_not_up(nodes, away), known)
        threads = {node.name: node.cpus_per_core for node in nodes}
        running = [_holding(job, record, threads) for job, record in own if job.phase is Phase.RUNNING]
        used = used_by_others(graph, nodes, running)
        state = {**free_totals(nodes, away), "queue_depth": queued}
        return ClusterFacts(manager="slurm", state=state, marks=marks, used=used, shape=self.shape)


def make_site(
    graph: Graph,
    nodes: Sequence[SlurmNode],
    partitions: Sequence[SlurmPartition],
    groups: frozenset[str] = frozenset(),
    config: Mapping[str, str] | None = None,
) -> SlurmSite:
    """Build the site from Slurm's description; `graph` is the registered one."""
    features: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {part.name: set() for part in partitions}
    for node in nodes:
        for feature in node.features:
            features.setdefault(feature, set()).add(node.name)
        for partition in node.partitions:
            members.setdefault(partition, set()).add(node.name)
    gres = [one for node in nodes for one in node.gres]
    return SlurmSite(
        graph=graph,
        types=frozenset(graph.types),
        gres=frozenset(one.name for one in gres),
        gpu_kinds=frozenset(one.kind for one in gres if one.name == "gpu" and one.kind),
        features={name: frozenset(on) for name, on in features.items()},
        partitions={name: frozenset(on) for name, on in members.items()},
        rules={part.name: part for part in partitions},
        groups=groups,
        nodes=tuple(node.name for node in nodes),
        threaded=any(node.threads > 1 and node.cpus > node.sockets * node.cores_per_socket for node in nodes),
        shape=shape_of(nodes),
        config=config or {},
    )


def shape_of(nodes: Sequence[SlurmNode]) -> str:
    """Return a digest of the nodes' hardware and configuration."""
    digest = hashlib.sha256()
    for node in nodes:
        size = (node.cpus_usable, node.sockets, node.cores_per_socket, node.threads, node.memory)
        digest.update(repr((node.name, size, node.features, node.partitions, node.gres)).encode())
    return digest.hexdigest()


def closed(rule: SlurmPartition, groups: frozenset[str]) -> str | None:
    """Return why our user cannot use a partition, or None. `groups`: those of the user; empty: not known."""
    if not rule.up:
        return f"is not available: {rule.state.lower()}"
    if rule.groups and groups and groups.isdisjoint(rule.groups):
        return f"is for the groups {', '.join(rule.groups)} only"
    return None


def _holding(job: SlurmJob, record: SlurmRecord, threads: Mapping[str, int]) -> SlurmAllocation:
    """Return the resources that the server counts for a job.

    Slurm may give it more: whole nodes, or memory that was not requested. The rest counts as used by others.
    """
    try:
        hosts = tuple(job.hosts())
    except Invalid:
        hosts = ()  # a truncated node list: all its resources count as used by others
    many = max(1, len(hosts) or job.nodes)
    cpus, memory = -(-job.cpus // many), -(-job.memory // many)
    if record.cores:
        per_core = max((threads.get(host, 1) for host in hosts), default=1)
        cpus = min(cpus, -(-record.cores // many) * per_core)
        memory = min(memory, -(-record.memory // many))
    return SlurmAllocation(nodes=hosts, cpus=cpus, memory=memory, gpus=record.gpus)
