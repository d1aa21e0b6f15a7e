"""Totals of a graph per resource type: number of vertices, and sizes by unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Sum:
    """Totals of one type."""

    vertices: int
    amounts: Mapping[str, int] = field(default_factory=dict)  # summed sizes by unit; "" where there is none

    def __str__(self) -> str:
        return " + ".join(f"{amount} {unit}".rstrip() for unit, amount in self.amounts.items())


def totals(graph: Graph) -> dict[str, Sum]:
    """Return the totals per type, from the top of the tree down: `{"node": 64, "core": 4096, "memory": 16384 GB}`."""
    vertices: Counter[str] = Counter(graph.types)
    amounts: Counter[tuple[str, str]] = Counter()
    if set(graph.sizes) == {1}:
        amounts.update(zip(graph.types, graph.units, strict=True))
    else:
        for type, unit, size in zip(graph.types, graph.units, graph.sizes, strict=True):
            amounts[type, unit] += size
    by_type: dict[str, dict[str, int]] = {type: {} for type in vertices}
    for (type, unit), amount in amounts.items():
        by_type[type][unit] = amount
    return {type: Sum(vertices[type], by_type[type]) for type in vertices}
