"""A cluster's graph folded: equal subtrees are one shape, so ten thousand nodes alike are one shape and a count.

`Fold` is the whole graph (*ever*) with its subsystems. `fold_again` folds it with what is marked,
taken or named, and touches only the vertices that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shape, Shapes
from rainbow_sched.model.graph import Subsystem


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What differs from the whole graph, by vertex number."""

    taken: Mapping[int, int]  # units used or placed
    down: frozenset[int]  # down or drained vertices, without those below them
    allowed: Callable[[int], bool] | None = None  # None: the request names no hosts
    touched: frozenset[int] = frozenset()  # further vertices whose `allowed` may differ


class Fold:
    """A graph with its subsystems, folded as if all of it were free.

    Only vertices that something hangs on, or in, have shapes of their own here; all others have the
    shape of the bare graph, seen with the class of the vertex above them.
    """

    def __init__(self, structure: Structure, subsystems: Iterable[Subsystem], facts: Facts, shapes: Shapes) -> None:
        self.structure = structure
        self.graph = structure.graph
        self.shapes = shapes
        self.subsystems = tuple(sorted(subsystems, key=lambda subsystem: subsystem.name))
        hung: dict[int, frozenset[int]] = {}
        for subsystem in self.subsystems:
            for id, found in facts.read(subsystem).items():
                i = structure.positions[id]
                hung[i] = hung.get(i, frozenset()) | found
        self._classes: dict[int, int] = {}  # of the vertices that something hangs on
        for i in sorted(hung):  # parents first
            self._classes[i] = facts.join(self.cls(i), hung[i])
        self._own: dict[int, Shape] = self._special()
        self.root = self.shape(0)

    def cls(self, i: int) -> int:
        """The class of facts that speak for a vertex."""
        parents = self.graph.parents
        classes = self._classes
        if not classes:
            return 0
        while i >= 0:
            found = classes.get(i)
            if found is not None:
                return found
            i = parents[i]
        return 0

    def hung_classes(self) -> Iterable[tuple[int, int]]:
        """The vertices that something hangs on, parents first, and their classes."""
        return self._classes.items()

    def shape(self, i: int) -> Shape:
        """A vertex's shape when all is free."""
        found = self._own.get(i)
        return found if found is not None else self.shapes.colour(self.structure.plain[i], self.cls(i))

    def _special(self) -> dict[int, Shape]:
        """Shapes of the vertices above what hangs somewhere."""
        parents = self.graph.parents
        inside: dict[
            int, set[int]
        ] = {}  # by vertex: the children that differ from what their parent's class makes them
        for i in self._classes:
            while parents[i] >= 0:
                known = inside.setdefault(parents[i], set())
                if i in known:
                    break
                known.add(i)
                i = parents[i]
        made: dict[int, Shape] = {}
        for i in sorted(inside, reverse=True):
            cls = self.cls(i)
            counts = dict(self.shapes.colour(self.structure.plain[i], cls).kids)
            for kid in inside[i]:
                before = self.shapes.colour(self.structure.plain[kid], cls)
                after = made.get(kid) or self.shapes.colour(self.structure.plain[kid], self.cls(kid))
                _swap(counts, before, after)
            made[i] = self.shapes.make(self.structure.own(i, cls, self.graph.sizes[i]), counts)
        return made

    def differing(self, state: State) -> list[int]:
        """Vertices whose shape differs under `state`, children before parents."""
        found: set[int] = set()
        for i in state.down | state.touched:
            if i not in found:
                found.update(self.structure.below(i))
        found.update(state.taken)
        for i in tuple(found):
            at = self.graph.parents[i]
            while at >= 0 and at not in found:
                found.add(at)
                at = self.graph.parents[at]
        return sorted(found, reverse=True)

    def fold_again(self, state: State) -> dict[int, Shape]:
        """The shapes of the vertices that differ under `state`."""
        made: dict[int, Shape] = {}
        order = self.differing(state)
        parents = self.graph.parents
        dark: dict[int, bool] = {}
        for i in reversed(order):
            dark[i] = i in state.down or (parents[i] >= 0 and dark.get(parents[i], False))
        changed: dict[int, list[int]] = {}
        for i in order:
            counts = self._counts(i, changed.get(i, ()), made)
            taken = min(state.taken.get(i, 0), self.graph.sizes[i])
            allowed = state.allowed is None or state.allowed(i)
            clean = not taken and all(kid.clean for kid in counts)
            whole = clean and not dark[i] and allowed and all(kid.whole for kid in counts)
            free = 0 if dark[i] else self.graph.sizes[i] - taken
            key = self.structure.own(i, self.cls(i), free, (clean, whole, allowed))
            made[i] = self.shapes.make(key, counts)
            if parents[i] >= 0:
                changed.setdefault(parents[i], []).append(i)
        return made

    def _counts(self, i: int, changed: Iterable[int], made: Mapping[int, Shape]) -> dict[Shape, int]:
        counts = dict(self.shape(i).kids)
        for kid in changed:
            _swap(counts, self.shape(kid), made[kid])
        return counts


def _swap(counts: dict[Shape, int], before: Shape, after: Shape) -> None:
    """One vertex of shape `before` has become `after`."""
    if counts[before] == 1:
        del counts[before]
    else:
        counts[before] -= 1
    counts[after] = counts.get(after, 0) + 1
