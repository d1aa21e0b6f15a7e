"""Find which resources of a Slurm cluster are up, free and in use."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from rainbow_sched.discovery.slurm import SlurmNode
from rainbow_sched.model.graph import Graph, Mark
from rainbow_sched.model.quantities import factor

_DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "REBOOT_ISSUED"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT"})
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAllocation:
    """The resources of one job, spread evenly over its nodes."""

    nodes: tuple[str, ...]
    cpus: int = 0  # on each node, as Slurm counts them
    memory: int = 0  # MiB on each node
    gpus: int = 0  # on each node


def mark(node: SlurmNode) -> Mark:
    """Return the mark of a node; an unresponsive node is down unless it is powered off, because Slurm wakes it."""
    states = set(node.states)
    if states & _DOWN or (not node.responding and "POWERED_DOWN" not in states):
        return Mark.DOWN
    return Mark.DRAINED if states & _DRAINED else Mark.UP


def free_totals(nodes: Iterable[SlurmNode], unreachable: Container[str] = ()) -> dict[str, object]:
    """Return `nodes_free`, `cores_free` and `gpus_free` of reachable nodes that are up; a free node has no jobs."""
    free_nodes = free_cores = free_gpus = 0
    for node in nodes:
        if mark(node) is not Mark.UP or node.name in unreachable:
            continue
        free_nodes += node.cpus_alloc == 0
        free_cores += max(0, node.cores - node.cores_alloc)
        gpus = sum(gres.count for gres in node.gres if gres.name == "gpu")
        free_gpus += max(0, gpus - sum(gres.count for gres in node.gres_used if gres.name == "gpu"))
    return {"nodes_free": free_nodes, "cores_free": free_cores, "gpus_free": free_gpus}


def used_by_others(graph: Graph, nodes: Sequence[SlurmNode], own: Iterable[SlurmAllocation]) -> dict[str, int]:
    """Return units in use by vertex id, without our own jobs, which the server counts itself."""
    mine: dict[tuple[str, str], int] = {}
    for holding in own:
        for name in holding.nodes:
            for type, units in (("cpu", holding.cpus), ("memory", holding.memory), ("gpu", holding.gpus)):
                mine[name, type] = mine.get((name, type), 0) + units
    leaves = leaves_by_node(graph)
    used: dict[str, int] = {}
    for node in nodes:
        others = max(0, node.cpus_alloc - mine.get((node.name, "cpu"), 0))
        amounts = {"core": node.cores_of(others), "memory": node.memory_alloc}
        for gres in node.gres_used:
            amounts[gres.name] = amounts.get(gres.name, 0) + gres.count
        for type, amount in amounts.items():
            rest = amount - mine.get((node.name, type), 0)
            if rest > 0:
                used.update(spread(graph, leaves.get((node.name, type), ()), rest))
    return used


def leaves_by_node(graph: Graph) -> dict[tuple[str, str], list[int]]:
    """Return vertices without children, by node name and type."""
    parents = set(graph.parents)
    host: list[str] = []
    leaves: dict[tuple[str, str], list[int]] = {}
    for i, type in enumerate(graph.types):
        parent = graph.parents[i]
        host.append(graph.names[i] if type == "node" else host[parent] if parent >= 0 else "")
        if host[i] and i not in parents:
            leaves.setdefault((host[i], type), []).append(i)
    return leaves


def spread(graph: Graph, leaves: Sequence[int], amount: int) -> dict[str, int]:
    """Distribute `amount` units over vertices in order; memory (in MiB) is converted to the unit of each vertex."""
    found: dict[str, int] = {}
    for i in leaves:
        unit = factor(graph.units[i]) if graph.units[i] else None
        wanted = amount if unit is None else -(-amount * _MIB // unit)
        taken = min(wanted, graph.sizes[i])
        if taken:
            found[graph.ids[i]] = taken
        amount -= taken if unit is None else taken * unit // _MIB
        if amount <= 0:
            break
    return found


def nodes_not_up(nodes: Sequence[SlurmNode], unreachable: Container[str] = ()) -> dict[str, str]:
    """Return the marks of nodes that are not up; a node that is in none of our partitions counts as drained."""
    found = {}
    for node in nodes:
        now = mark(node)
        if now is Mark.UP and node.name in unreachable:
            now = Mark.DRAINED
        if now is not Mark.UP:
            found[node.name] = str(now)
    return found
