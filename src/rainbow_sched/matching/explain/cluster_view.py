"""One cluster as an explanation sees it: its shapes now and ever, names, classes of facts, and field values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.matching.structure.values import numbers_of
from rainbow_sched.model.reasons import Where
from rainbow_sched.model.request import Requirement, Scalar

MAX_LISTED_NAMES = 2  # names that a sentence lists before "and N more"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`shape_of` returns the current shape of a vertex."""

    fold: Fold
    now: Shape
    ever: Shape
    shape_of: Callable[[int], Shape]

    def where(self, type: str, root: Shape, shapes: Collection[Shape]) -> Where:
        """Return a few names of the vertices of `type` with one of `shapes`, and the number of further ones."""
        if not shapes:
            return Where()
        counts = multiplicities(root)
        total = sum(counts[shape] for shape in shapes)
        shape_of = self.fold.shape if root is self.fold.root else self.shape_of
        names: list[str] = []
        for i in self.fold.structure.of_type(type):
            if shape_of(i) in shapes:
                names.append(self.fold.structure.name(i))
                if len(names) == MAX_LISTED_NAMES:
                    break
        return Where(tuple(names), max(0, total - len(names)))


class ViewClasses:
    """The classes of facts of the vertices of each type in one view of a cluster."""

    __slots__ = ("_by_type", "_root")

    def __init__(self, root: Shape) -> None:
        self._root = root
        self._by_type: dict[str, set[int]] | None = None

    def of(self, type: str | None) -> Iterable[int]:
        """Return the classes of the vertices of a type; None means the cluster itself."""
        if type is None:
            return (self._root.cls,)
        if self._by_type is None:
            self._by_type = {}
            seen = {self._root}
            stack = [self._root]
            while stack:
                shape = stack.pop()
                self._by_type.setdefault(shape.type, set()).add(shape.cls)
                for kid, _ in shape.kids:
                    if kid not in seen:
                        seen.add(kid)
                        stack.append(kid)
        return self._by_type.get(type, ())


class ValueReader:
    """Look up field values; each fact is read once for all clusters."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._about: dict[str, int] = {}  # by subsystem: its facts as a bit set
        self._read: dict[tuple[str, frozenset[str], int], tuple[tuple[str, Scalar], ...]] = {}
        self._found: dict[tuple[str, frozenset[str], int], tuple[Scalar, ...]] = {}

    def existing(self, requirement: Requirement, classes: Iterable[int], term: int | None = None) -> tuple[Scalar, ...]:
        """Return the values of the requirement's fields (or of one term) in these classes, in a fixed order."""
        name = requirement.subsystem
        terms = requirement.terms if term is None else requirement.terms[term : term + 1]
        fields = frozenset([each.field for each in terms])
        if name not in self._about:
            self._about[name] = self._facts.bits_of_subsystem(name)
        there = 0
        for cls in classes:
            there |= self._facts.classes[cls]
        there &= self._about[name]
        cached = self._found.get((name, fields, there))
        if cached is None:
            cached = self._found[name, fields, there] = self._sorted(name, fields, there)
        return cached

    def _sorted(self, name: str, fields: frozenset[str], there: int) -> tuple[Scalar, ...]:
        values: dict[str, Scalar] = {}
        for number in numbers_of(there):
            pairs = self._read.get((name, fields, number))
            if pairs is None:
                pairs = self._read[name, fields, number] = self._pairs(number, fields)
            for text, value in pairs:
                values.setdefault(text, value)
        return tuple([values[text] for text in sorted(values)])

    def _pairs(self, number: int, fields: frozenset[str]) -> tuple[tuple[str, Scalar], ...]:
        values = self._facts.fields[number]
        return tuple((str(value), value) for field in sorted(fields & values.keys()) for value in values[field])
