"""One cluster as an explanation sees it: its shapes now and ever, and the names of its vertices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from rainbow_sched.matching.fit.levels import Step, measured
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.model.reasons import Where

MAX_LISTED_NAMES = 2  # names that a sentence lists before "and N more"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`shape_of` returns the current shape of a vertex."""

    fold: Fold
    now: Shape
    ever: Shape
    shape_of: Callable[[int], Shape]

    def shape(self, i: int, root: Shape) -> Shape:
        """Return a vertex's shape in the view with the root shape `root`."""
        return self.fold.shape(i) if root is self.fold.root else self.shape_of(i)

    def where(self, type: str, root: Shape, shapes: Collection[Shape]) -> Where:
        """Return a few names of the vertices of `type` with one of `shapes`, and the number of further ones."""
        if not shapes:
            return Where()
        counts = multiplicities(root)
        total = sum(counts[shape] for shape in shapes)
        names: list[str] = []
        for i in self.fold.structure.of_type(type):
            if self.shape(i, root) in shapes:
                names.append(self.fold.structure.name(i))
                if len(names) == MAX_LISTED_NAMES:
                    break
        return Where(tuple(names), max(0, total - len(names)))


def units_inside(shape: Shape, step: Step, cache: dict[Shape, int]) -> int:
    """Return the free units of a leaf step's type inside a vertex, regardless of requirements."""
    units = cache.get(shape)
    if units is None:
        units = sum(_units_of(kid, step, cache) * count for kid, count in shape.kids)
        cache[shape] = units
    return units


def _units_of(shape: Shape, step: Step, cache: dict[Shape, int]) -> int:
    inside = units_inside(shape, step, cache)
    if shape.type != step.level.type or not shape.allowed:
        return inside
    if shape.kids:
        return inside + (measured(step.mode, shape.size, shape.unit) or 0 if shape.whole else 0)
    return measured(step.mode, shape.free, shape.unit) or 0
