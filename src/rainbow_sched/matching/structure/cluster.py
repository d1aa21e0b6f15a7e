"""A folded cluster graph: equal subtrees share one shape, so ten thousand equal nodes are one shape and a count.

`Fold` is the whole graph (*ever*) with its subsystems. `fold_again` folds it with marks, taken units
and allowed hosts, and computes only the vertices that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shape, Shapes
from rainbow_sched.model.graph import Subsystem


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphState:
    """The current state of a graph's vertices, by vertex number."""

    taken: Mapping[int, int]  # units used or placed
    down: frozenset[int]  # down or drained vertices, without those below them
    allowed: Callable[[int], bool] | None = None  # None: the request names no hosts
    touched: frozenset[int] = frozenset()  # further vertices for which `allowed` may be False


class Fold:
    """A graph with its subsystems, folded as if everything were free.

    Only vertices with attached subsystem vertices, and those above them, have shapes of their own here. All others
    have the shape of the plain graph with the class of the vertex above.
    """

    def __init__(self, structure: Structure, subsystems: Iterable[Subsystem], facts: Facts, shapes: Shapes) -> None:
        self.structure = structure
        self.graph = structure.graph
        self.shapes = shapes
        self.subsystems = tuple(sorted(subsystems, key=lambda subsystem: subsystem.name))
        attached: dict[int, frozenset[int]] = {}
        for subsystem in self.subsystems:
            for id, numbers in facts.read(subsystem).items():
                i = structure.positions[id]
                attached[i] = attached.get(i, frozenset()) | numbers
        self.attached: dict[int, int] = {}  # the classes of the vertices with attached facts, parents first
        for i in sorted(attached):  # parents first
            self.attached[i] = facts.join(self.cls(i), attached[i])
        self._own: dict[int, Shape] = self._special()
        self.root = self.shape(0)

    def cls(self, i: int) -> int:
        """Return the class of facts that hold at a vertex."""
        parents = self.graph.parents
        classes = self.attached
        if not classes:
            return 0
        while i >= 0:
            cls = classes.get(i)
            if cls is not None:
                return cls
            i = parents[i]
        return 0

    def shape(self, i: int) -> Shape:
        """Return a vertex's shape when everything is free."""
        shape = self._own.get(i)
        return shape if shape is not None else self.shapes.with_class(self.structure.plain[i], self.cls(i))

    def _special(self) -> dict[int, Shape]:
        """Compute the shapes of the vertices above attached facts."""
        parents = self.graph.parents
        inside: dict[int, set[int]] = {}  # by vertex: children whose shape differs from the plain one in its class
        for i in self.attached:
            while parents[i] >= 0:
                cached = inside.setdefault(parents[i], set())
                if i in cached:
                    break
                cached.add(i)
                i = parents[i]
        made: dict[int, Shape] = {}
        for i in sorted(inside, reverse=True):
            cls = self.cls(i)
            counts = dict(self.shapes.with_class(self.structure.plain[i], cls).kids)
            for kid in inside[i]:
                before = self.shapes.with_class(self.structure.plain[kid], cls)
                after = made.get(kid) or self.shapes.with_class(self.structure.plain[kid], self.cls(kid))
                _swap(counts, before, after)
            made[i] = self.shapes.make(self.structure.own(i, cls, self.graph.sizes[i]), counts)
        return made

    def differing(self, state: GraphState) -> list[int]:
        """Return the vertices whose shape may differ in `state`, children before parents."""
        vertices: set[int] = set()
        for i in state.down | state.touched:
            if i not in vertices:
                vertices.update(self.structure.below(i))
        vertices.update(state.taken)
        for i in tuple(vertices):
            at = self.graph.parents[i]
            while at >= 0 and at not in vertices:
                vertices.add(at)
                at = self.graph.parents[at]
        return sorted(vertices, reverse=True)

    def fold_again(self, state: GraphState) -> dict[int, Shape]:
        """Return the shapes in `state` of the vertices that differ."""
        made: dict[int, Shape] = {}
        order = self.differing(state)
        parents = self.graph.parents
        unavailable: dict[int, bool] = {}
        for i in reversed(order):
            unavailable[i] = i in state.down or (parents[i] >= 0 and unavailable.get(parents[i], False))
        changed: dict[int, list[int]] = {}
        for i in order:
            counts = dict(self.shape(i).kids)
            for kid in changed.get(i, ()):
                _swap(counts, self.shape(kid), made[kid])
            taken = min(state.taken.get(i, 0), self.graph.sizes[i])
            allowed = state.allowed is None or state.allowed(i)
            clean = not taken and all(each.clean for each in counts)
            whole = clean and not unavailable[i] and allowed and all(each.whole for each in counts)
            free = 0 if unavailable[i] else self.graph.sizes[i] - taken
            key = self.structure.own(i, self.cls(i), free, (clean, whole, allowed))
            made[i] = self.shapes.make(key, counts)
            if parents[i] >= 0:
                changed.setdefault(parents[i], []).append(i)
        return made


def _swap(counts: dict[Shape, int], before: Shape, after: Shape) -> None:
    """Replace one vertex of shape `before` by one of shape `after`."""
    if counts[before] == 1:
        del counts[before]
    else:
        counts[before] -= 1
    counts[after] = counts.get(after, 0) + 1
