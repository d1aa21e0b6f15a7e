"""Choose a rack for a job that must run within one.

`--switches=1` is not sufficient: Slurm ignores it without a topology and drops it after some minutes, and the racks of
the graph need not be Slurm's switches. So the agent chooses a rack, and Slurm chooses among its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rainbow_sched.agent.backends.common.host_binding import bound_hosts
from rainbow_sched.agent.backends.slurm.capacity import lacks
from rainbow_sched.agent.backends.slurm.shape import RACK, SlurmShape
from rainbow_sched.agent.backends.slurm.site import SlurmSite
from rainbow_sched.discovery.slurm import SlurmNode
from rainbow_sched.discovery.slurm_state import mark
from rainbow_sched.model.graph import Graph, Mark


def within_racks(found: SlurmShape, site: SlurmSite, nodes: Sequence[SlurmNode]) -> list[SlurmShape]:
    """Return the shape restricted to each rack, racks with free room and most free cores first.

    A shape that may span racks is returned as it is. Racks without usable nodes are skipped. Raise `CannotBind` if
    Slurm knows no node of any rack.
    """
    if not found.one_rack:
        return [found]
    racks = _racks(site.graph)
    known = bound_hosts([name for names in racks for name in names], site.nodes, "Slurm")
    there = set(known.names).difference(found.exclude)
    if found.nodes == 1 or (found.nodes is None and found.slots == 1 and not found.gpus_in_all):
        racks = [[name for names in racks for name in names]]  # one node is in one rack
    shapes = []
    for names in racks:
        left = there.intersection(names)
        if left:
            exclude = frozenset(name for name in site.nodes if name not in left)
            only = tuple(name for name in site.nodes if name in left)
            unknown = found.unknown or known.unknown
            shapes.append(replace(found, exclude=exclude, only=only, unknown=unknown))
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
