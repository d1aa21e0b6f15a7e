"""What the driver must know of a Slurm site to put a request into sbatch's words: gres, features, partitions, racks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.discovery.slurm import SlurmNode, SlurmPartition
from rainbow_sched.model.graph import Graph

BACKFILL = "sched/backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster in the words of its own configuration."""

    graph: Graph
    types: frozenset[str]  # every type of resource that the graph has
    gres: frozenset[str] = frozenset()  # gpu, fpga ...
    gpu_kinds: frozenset[str] = frozenset()
    features: Mapping[str, frozenset[str]] = field(default_factory=dict)  # name -> nodes
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rules: Mapping[str, SlurmPartition] = field(default_factory=dict)  # the partitions' limits, as Slurm lists them
    groups: frozenset[str] = frozenset()  # our user's; empty: not known
    nodes: tuple[str, ...] = ()
    threaded: bool = False  # a core is several cpus in Slurm's count
    shape: str = ""  # of the nodes it was made from
    config: Mapping[str, str] = field(default_factory=dict)  # of the controller, as `scontrol show config` lists it

    @property
    def no_groups(self) -> str:
        """Why no job of several groups can run here; empty: it can."""
        plugin = self.config.get("SchedulerType", BACKFILL)
        if plugin == BACKFILL:
            return ""
        return f"Slurm starts heterogeneous jobs with {BACKFILL} only, and this one has {plugin}"

    @property
    def no_shared_steps(self) -> bool:
        """True if one srun cannot start tasks in several components of a job."""
        return "disable_hetjob_steps" in self.config.get("SchedulerParameters", "").split(",")

    def default_memory(self, partition: str) -> str:
        """What a job gets that says nothing of memory, as a word of sbatch; `partition`: empty: the default one."""
        rules = self.rules.values()
        rule = self.rules.get(partition) or next((rule for rule in rules if rule.default), None)
        for about in (rule.memory if rule is not None else {}, self.config):
            for name, word in (("DefMemPerCPU", "--mem-per-cpu"), ("DefMemPerNode", "--mem")):
                if (amount := about.get(name, "")).isdecimal() and amount != "0":
                    return f"{word}={amount}M"
        return "--mem=0"


def make_site(
    graph: Graph,
    nodes: Sequence[SlurmNode],
    partitions: Sequence[SlurmPartition],
    groups: frozenset[str] = frozenset(),
    config: Mapping[str, str] | None = None,
) -> Site:
    """The site as Slurm describes it; `graph` is the one that is registered for it."""
    features: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {part.name: set() for part in partitions}
    for node in nodes:
        for feature in node.features:
            features.setdefault(feature, set()).add(node.name)
        for partition in node.partitions:
            members.setdefault(partition, set()).add(node.name)
    gres = [one for node in nodes for one in node.gres]
    return Site(
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
    """The same for the same nodes, whatever they do: what changes when the cluster was rebuilt or reconfigured."""
    told = hashlib.sha256()
    for node in nodes:
        size = (node.cpus_usable, node.sockets, node.cores_per_socket, node.threads, node.memory)
        told.update(repr((node.name, size, node.features, node.partitions, node.gres)).encode())
    return told.hexdigest()
