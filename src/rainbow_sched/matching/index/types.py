"""Traits of a cluster's vertex types that decide whether counting rows is exact."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from rainbow_sched.matching.index.tables import Mask
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.shapes import Shape


class TypeTraits:
    """Traits of types as masks over clusters; `traits_of` defines the traits."""

    def __init__(self) -> None:
        self.size = 16
        self._masks: dict[tuple[str, str], Mask] = {}
        self._holding: dict[tuple[str, str], int] = {}  # number of clusters in each mask
        self._of: dict[int, frozenset[tuple[str, str]]] = {}  # by cluster
        self._equal: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}  # few designs, many clusters

    def grow(self, size: int) -> None:
        """Make room for cluster numbers below `size`."""
        if size > self.size:
            self.size = max(size, 2 * self.size)
            for key, mask in self._masks.items():
                self._masks[key] = np.concatenate([mask, np.zeros(self.size - len(mask), np.bool_)])

    def set(self, cluster: int, traits: Iterable[tuple[str, str]]) -> None:
        """Set all traits of a cluster."""
        for key in self._of.pop(cluster, ()):
            self._masks[key][cluster] = False
            self._holding[key] -= 1
        after = frozenset(traits)
        if after:
            self._of[cluster] = after = self._equal.setdefault(after, after)
        for key in after:
            if key not in self._masks:
                self._masks[key] = np.zeros(self.size, np.bool_)
            self._masks[key][cluster] = True
            self._holding[key] = self._holding.get(key, 0) + 1

    def get(self, trait: str, type: str) -> Mask | None:
        """Return the clusters whose type has this trait, or None if there are none."""
        return self._masks[trait, type] if self._holding.get((trait, type)) else None

    def lacking(self, type: str) -> Mask | None:
        """Return the clusters without vertices of a type, or None if all have some."""
        if self._holding.get(("has", type), 0) == len(self._of):
            return None
        having = self.get("has", type)
        return np.ones(self.size, np.bool_) if having is None else ~having

    def several(self, type: str) -> Mask | None:
        """Return the clusters that have vertices of a type, but not as `sole`."""
        having = self.get("has", type)
        if having is None or self._holding["has", type] == self._holding.get(("sole", type), 0):
            return None
        sole = self.get("sole", type)
        return having if sole is None else having & ~sole


def traits_of(fold: Fold) -> set[tuple[str, str]]:
    """Return pairs of a trait and a type.

    has     the type has vertices
    nested  some are inside a vertex of the same type
    sole    there is one, and all other vertices are inside or above it
    sized   some leaves have a size above 1 or a unit
    inner   some have children
    outer   some are leaves
    mixed   both inner and outer
    lumpy   some with children have a size above 1 or a unit
    """
    graph = fold.graph
    traits: set[tuple[str, str]] = set()
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    seen: set[tuple[Shape, frozenset[str]]] = set()

    def visit(shape: Shape, above: frozenset[str]) -> None:
        if (shape, above) in seen:
            return
        seen.add((shape, above))
        traits.add(("has", shape.type))
        if shape.type in above:
            traits.add(("nested", shape.type))
        if shape.size > 1 or shape.unit:
            traits.add(("lumpy" if shape.kids else "sized", shape.type))
        traits.add(("inner" if shape.kids else "outer", shape.type))
        for kid, _ in shape.kids:
            visit(kid, above | {shape.type})

    visit(fold.root, frozenset())
    traits |= {("mixed", type) for trait, type in traits if trait == "inner" and ("outer", type) in traits}
    for i, type in enumerate(graph.types):
        counts[type] = counts.get(type, 0) + 1
        first.setdefault(type, i)
    for type, number in counts.items():
        if number == 1:
            around = chain(fold.structure.below(first[type]), fold.structure.above(first[type]))
            if sum(1 for _ in around) == len(graph) + 1:  # both begin with the vertex itself
                traits.add(("sole", type))
    return traits
