"""Fold a graph: equal siblings become one entry with a count, so that 10,000 equal nodes are a few lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rainbow_sched.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Folded:
    """Equal vertices in equal parents."""

    members: tuple[int, ...]  # in the graph's order, over all parents
    count: int  # in each parent
    inside: tuple[Folded, ...]

    @property
    def first(self) -> int:
        """Return the first vertex."""
        return self.members[0]

    def walk(self) -> Iterator[Folded]:
        """Iterate over this entry and all inside, from the top."""
        yield self
        for entry in self.inside:
            yield from entry.walk()


def fold(graph: Graph, notes: Mapping[int, str] | None = None) -> Folded:
    """Fold all equal siblings of a graph; vertices with different `notes` differ."""
    below = graph.children()
    kinds, counts = _kinds(graph, below, notes or {})

    def entry(members: list[int], count: int) -> Folded:
        # Members of one kind have children of the same kinds, so the k-th count of each belongs to one entry.
        inside: list[tuple[list[int], int]] = [([], many) for _, many in counts[kinds[members[0]]]]
        for member in members:
            children, at = sorted(below[member], key=lambda child: (kinds[child], child)), 0
            for entries, many in inside:
                entries += children[at : at + many]
                at += many
        inside.sort(key=lambda part: part[0][0])
        return Folded(tuple(members), count, tuple(entry(entries, many) for entries, many in inside))

    return entry([0], 1)


def _kinds(
    graph: Graph, below: list[list[int]], notes: Mapping[int, str]
) -> tuple[list[int], list[tuple[tuple[int, int], ...]]]:
    """Return for each vertex the number of its kind, and for each kind its children's kinds with their counts."""
    numbers: dict[tuple[object, ...], int] = {}
    counts: list[tuple[tuple[int, int], ...]] = []
    kinds = [0] * len(graph)
    for i in range(len(graph) - 1, -1, -1):
        inside = tuple(sorted(Counter(kinds[child] for child in below[i]).items()))
        metadata = json.dumps(graph.metadata[i], sort_keys=True) if i in graph.metadata else ""
        key = (graph.types[i], graph.sizes[i], graph.units[i], metadata, notes.get(i, ""), inside)
        kinds[i] = numbers.setdefault(key, len(counts))
        if kinds[i] == len(counts):
            counts.append(inside)
    return kinds, counts
