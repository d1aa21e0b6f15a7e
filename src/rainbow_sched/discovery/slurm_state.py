"""What of a Slurm cluster is up, free and in use now. Pure; the marks and units fit any graph that names its nodes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.discovery.slurm import SlurmNode
from rainbow_sched.model.graph import Graph, Mark
from rainbow_sched.model.quantities import factor

_DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "REBOOT_ISSUED"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "MAINT"})
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one job holds, spread evenly over its nodes."""

    nodes: tuple[str, ...]
    cpus: int = 0  # on each node, as Slurm counts them
    memory: int = 0  # MiB on each node
    gpus: int = 0  # on each node


def mark(node: SlurmNode) -> Mark:
    """What Slurm says of a node. One that does not answer is down; one that is powered off is not: Slurm wakes it."""
    states = set(node.states)
    if states & _DOWN or (not node.responding and "POWERED_DOWN" not in states):
        return Mark.DOWN
    return Mark.DRAINED if states & _DRAINED else Mark.UP


def totals(nodes: Iterable[SlurmNode], unreachable: Container[str] = ()) -> dict[str, object]:
    """`nodes_free`, `cores_free`, `gpus_free`: of nodes that are up and ours to use. Free is a node nobody uses."""
    free_nodes = free_cores = free_gpus = 0
    for node in nodes:
        if mark(node) is not Mark.UP or node.name in unreachable:
            continue
        free_nodes += node.cpus_alloc == 0
        free_cores += max(0, node.cores - node.cores_alloc)
        gpus = sum(gres.count for gres in node.gres if gres.name == "gpu")
        free_gpus += max(0, gpus - sum(gres.count for gres in node.gres_used if gres.name == "gpu"))
    return {"nodes_free": free_nodes, "cores_free": free_cores, "gpus_free": free_gpus}


def used_by_others(graph: Graph, nodes: Sequence[SlurmNode], own: Iterable[Holding]) -> dict[str, int]:
    """Units in use by vertex id, less what our own jobs hold: those the server counts itself."""
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
    """Vertices without children by the name of the node they lie in and their type."""
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
    """`amount` units laid on vertices one after the other, memory (in MiB) in each vertex's own unit."""
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


def merge_marks(
    before: Iterable[str], nodes: Sequence[SlurmNode], known: Mapping[str, object], unreachable: Container[str] = ()
) -> dict[str, str]:
    """Marks to report: every node that is not up, and `up` for those that once were not.

    A node that no partition of ours holds now counts as drained.
    """
    marked = set(before)
    found = {}
    for node in nodes:
        now = mark(node)
        if now is Mark.UP and node.name in unreachable:
            now = Mark.DRAINED
        if node.name in known and (now is not Mark.UP or node.name in marked):
            found[node.name] = str(now)
    return found
