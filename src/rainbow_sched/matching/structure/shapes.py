"""Interned subtrees: equal subtrees are one object, across all clusters of a fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias
from weakref import WeakValueDictionary

NO_PROPERTIES: frozenset[str] = frozenset()


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Shape:
    """A subtree by content."""

    type: str
    size: int
    unit: str
    cls: int  # class of the facts that hold at it
    properties: frozenset[str]  # its own and those of the vertices above
    free: int  # its own free units
    clean: bool  # nothing of it or inside it is used
    whole: bool  # clean, and nothing inside is down, drained or not allowed
    allowed: bool  # the request's hosts allow its use
    kids: tuple[tuple[Shape, int], ...]  # with their counts, ordered by digest
    digest: bytes
    base: Shape | None = None  # the same free subtree in class 0, if all its vertices are of one class
    by_class: dict[int, Shape] = field(default_factory=dict)  # the same subtree in other classes
    offer: tuple[tuple[tuple[str, str], int], ...] | None = None  # cached by the index: the units it offers when free


# type, size, unit, class of facts, properties, free units, clean, whole, allowed
ShapeKey: TypeAlias = tuple[str, int, str, int, frozenset[str], int, bool, bool, bool]


class Shapes:
    """The interning table of shapes; it holds them weakly."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()
        self._kinds: dict[tuple[frozenset[tuple[str, frozenset[str]]], frozenset[str], str], int] = {}

    def kind(self, units: Mapping[str, Iterable[str]], inner: frozenset[str], root: str) -> int:
        """Return one number for all graphs with the same units per type, types of hosts, and type of the root."""
        key = (frozenset((type, frozenset(names)) for type, names in units.items()), inner, root)
        return self._kinds.setdefault(key, len(self._kinds))

    def make(self, key: ShapeKey, counts: Mapping[Shape, int]) -> Shape:
        """Return the shape with this key and these children."""
        kids = tuple(sorted(counts.items(), key=lambda kid: kid[0].digest))
        full = (*key, kids)
        shape = self._known.get(full)
        if shape is None:
            shape = self._known[full] = Shape(*key, kids, _digest(key, kids))
        return shape

    def with_class(self, shape: Shape, cls: int) -> Shape:
        """Return the same free subtree with every vertex in class `cls`."""
        if cls == shape.cls:
            return shape
        other = shape.by_class.get(cls)
        if other is None:
            counts: dict[Shape, int] = {}
            for kid, count in shape.kids:
                other_kid = self.with_class(kid, cls)
                counts[other_kid] = counts.get(other_kid, 0) + count
            key = (shape.type, shape.size, shape.unit, cls, shape.properties, shape.size, True, True, True)
            other = shape.by_class[cls] = self.make(key, counts)
            other.base = shape
        return other


def _digest(key: ShapeKey, kids: Iterable[tuple[Shape, int]]) -> bytes:
    """Return a digest that orders children equally in every process, so that a search always takes the same steps."""
    content = [sorted(part) if isinstance(part, frozenset) else part for part in key]
    digest = blake2b(repr(content).encode(), digest_size=8)
    for kid, count in kids:
        digest.update(kid.digest + count.to_bytes(8, "little"))
    return digest.digest()


def multiplicities(root: Shape) -> dict[Shape, int]:
    """Return how often each shape occurs in `root`, itself included."""
    order: list[Shape] = []
    seen: set[Shape] = set()

    def visit(shape: Shape) -> None:
        if shape not in seen:
            seen.add(shape)
            for kid, _ in shape.kids:
                visit(kid)
            order.append(shape)

    visit(root)
    counts = dict.fromkeys(order, 0)
    counts[root] = 1
    for shape in reversed(order):  # each parent before its children
        for kid, count in shape.kids:
            counts[kid] += count * counts[shape]
    return counts
