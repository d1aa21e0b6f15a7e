"""What the driver must know of a Slurm site to put a request into sbatch's words: gres, features, partitions, racks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rainbow.discover.slurm import SlurmNode, SlurmPartition
from rainbow.model.graph import Graph


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


def make_site(
    graph: Graph,
    nodes: Sequence[SlurmNode],
    partitions: Sequence[SlurmPartition],
    groups: frozenset[str] = frozenset(),
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
    )


def shape_of(nodes: Sequence[SlurmNode]) -> str:
    """The same for the same nodes, whatever they do: what changes when the cluster was rebuilt or reconfigured."""
    told = hashlib.sha256()
    for node in nodes:
        size = (node.cpus_usable, node.sockets, node.cores_per_socket, node.threads, node.memory)
        told.update(repr((node.name, size, node.features, node.partitions, node.gres)).encode())
    return told.hexdigest()
