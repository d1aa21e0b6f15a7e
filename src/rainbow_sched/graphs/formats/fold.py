"""Fold a graph: equal siblings become one entry with a count, so that 10,000 equal nodes are a few lines."""

from __future__ import annotations

import json
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


def fold(graph: Graph, notes: Mapping[int, str] | None = None, *, ordered: bool = True) -> Folded:
    """Fold a graph; vertices with different `notes` differ.

    `ordered`: fold only neighbours, so that the graph can be unfolded exactly. Else fold all equal siblings.
    """
    below = graph.children()
    kinds, runs = _kinds(graph, below, notes or {}, ordered=ordered)

    def entry(members: list[int], count: int) -> Folded:
        # Alike members have alike runs, so the k-th run of each belongs to one entry.
        inside: list[tuple[list[int], int]] = [([], many) for _, many in runs[kinds[members[0]]]]
        for member in members:
            children = below[member] if ordered else _grouped(below[member], kinds)
            at = 0
            for found, many in inside:
                found += children[at : at + many]
                at += many
        if not ordered:
            inside.sort(key=lambda part: part[0][0])
        return Folded(tuple(members), count, tuple(entry(found, many) for found, many in inside))

    return entry([0], 1)


def _kinds(
    graph: Graph, below: list[list[int]], notes: Mapping[int, str], *, ordered: bool
) -> tuple[list[int], list[tuple[tuple[int, int], ...]]]:
    """For each vertex the number of its kind; for each kind its children's kinds with their counts."""
    known: dict[tuple[object, ...], int] = {}
    runs: list[tuple[tuple[int, int], ...]] = []
    kinds = [0] * len(graph)
    for i in range(len(graph) - 1, -1, -1):
        inside = _runs([kinds[child] for child in below[i]], ordered=ordered)
        about = json.dumps(graph.metadata[i], sort_keys=True) if i in graph.metadata else ""
        key = (graph.types[i], graph.sizes[i], graph.units[i], about, notes.get(i, ""), inside)
        kind = known.setdefault(key, len(runs))
        if kind == len(runs):
            runs.append(inside)
        kinds[i] = kind
    return kinds, runs


def _runs(kinds: list[int], *, ordered: bool) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    if not ordered:
        counts: dict[int, int] = {}
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
        return tuple(sorted(counts.items()))
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + 1)
        else:
            found.append((kind, 1))
    return tuple(found)


def _grouped(children: list[int], kinds: list[int]) -> list[int]:
    return sorted(children, key=lambda child: (kinds[child], child))
