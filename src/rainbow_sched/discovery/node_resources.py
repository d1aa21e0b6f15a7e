"""What graphs of Slurm and Flux share: subsystems over nodes, and units in use spread over a node's vertices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rainbow_sched.model.graph import Graph, Subsystem, Vertex
from rainbow_sched.model.quantities import factor

K = TypeVar("K")
_MIB = 2**20


def flat_subsystem(
    name: str,
    type: str,
    hosts: Mapping[str, Sequence[str]],
    root: str,
    nodes: int,
    about: Callable[[str], Mapping[str, object]] = lambda name: {"name": name},
) -> Subsystem | None:
    """Return a subsystem without inner edges, or None if it is empty; what all `nodes` have is attached to the root.

    `Subsystem.build` is too slow for 10,000 edges.
    """
    if not hosts:
        return None
    vertices = tuple(Vertex(id=f"{type}:{one}", type=type, name=one, metadata=about(one)) for one in hosts)
    hangs = tuple((root,) if len(on) == nodes else tuple(dict.fromkeys(on)) for on in hosts.values())
    return Subsystem(name=name, vertices=vertices, parents=(-1,) * len(vertices), hangs_on=hangs)


def leaves_by_node(graph: Graph, keys: Sequence[K]) -> dict[tuple[K, str], list[int]]:
    """Return vertices without children, by the key of their node and by type; `keys` has one for each vertex."""
    parents = set(graph.parents)
    host: list[int] = []
    leaves: dict[tuple[K, str], list[int]] = {}
    for i, type in enumerate(graph.types):
        above = graph.parents[i]
        host.append(i if type == "node" else host[above] if above >= 0 else -1)
        if host[i] >= 0 and i not in parents:
            leaves.setdefault((keys[host[i]], type), []).append(i)
    return leaves


def spread(graph: Graph, leaves: Sequence[int], amount: int) -> dict[str, int]:
    """Distribute `amount` units over vertices in order; memory (in MiB) is converted to the unit of each vertex."""
    found: dict[str, int] = {}
    for i in leaves:
        if amount <= 0:
            break
        unit = factor(graph.units[i]) if graph.units[i] else None
        wanted = amount if unit is None else -(-amount * _MIB // unit)
        taken = min(wanted, graph.sizes[i])
        if taken:
            found[graph.ids[i]] = taken
        amount -= taken if unit is None else taken * unit // _MIB
    return found
