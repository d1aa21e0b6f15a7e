"""Subtrees by content: the same content is the same object, across all clusters of a fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeAlias
from weakref import WeakValueDictionary

NO_PROPERTIES: frozenset[str] = frozenset()


class Shape:
    """A subtree by content. Children are shapes with how often each occurs; digests order them."""

    __slots__ = (
        "__weakref__",
        "allowed",
        "base",
        "clean",
        "cls",
        "coloured",
        "digest",
        "free",
        "kids",
        "offer",
        "properties",
        "size",
        "type",
        "unit",
        "whole",
    )

    type: str
    size: int
    unit: str
    cls: int  # class of facts that speak for it
    properties: frozenset[str]  # its own and those above it
    free: int  # units of its own that can be taken
    clean: bool  # nobody uses anything of it or inside it
    whole: bool  # clean, and nothing inside is down, drained or not allowed
    allowed: bool  # the request's hosts let it be used
    base: Shape | None  # the same free subtree of class 0, if all of this one is of one class
    coloured: dict[int, Shape]  # the same subtree under other classes
    digest: bytes
    offer: tuple[tuple[tuple[str, str], int], ...] | None  # kept here by the index: what it offers when free
    kids: tuple[tuple[Shape, int], ...]


# type, size, unit, class of facts, properties, free units, clean, whole, allowed
ShapeKey: TypeAlias = tuple[str, int, str, int, frozenset[str], int, bool, bool, bool]


class Shapes:
    """The interning table of shapes; shapes that nobody holds vanish."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()
        self._kinds: dict[tuple[frozenset[tuple[str, frozenset[str]]], frozenset[str], str], int] = {}

    def kind(self, units: Mapping[str, Iterable[str]], inner: frozenset[str], root: str) -> int:
        """One number for all graphs with the same units of each type, types of hosts, and type of the root."""
        same = (frozenset((type, frozenset(named)) for type, named in units.items()), inner, root)
        return self._kinds.setdefault(same, len(self._kinds))

    def make(self, key: ShapeKey, counts: Mapping[Shape, int]) -> Shape:
        """The one shape with this key and these children."""
        kids = tuple(sorted(counts.items(), key=_by_digest))
        full = (*key, kids)
        shape = self._known.get(full)
        if shape is None:
            shape = Shape()
            (
                shape.type,
                shape.size,
                shape.unit,
                shape.cls,
                shape.properties,
                shape.free,
                shape.clean,
                shape.whole,
                shape.allowed,
            ) = key
            shape.kids = kids
            shape.offer = None
            shape.base = None
            shape.coloured = {}
            shape.digest = _digest(key, shape.kids)
            self._known[full] = shape
        return shape

    def colour(self, shape: Shape, cls: int) -> Shape:
        """The same free subtree, with every vertex in it of class `cls`."""
        if cls == shape.cls:
            return shape
        found = shape.coloured.get(cls)
        if found is None:
            counts: dict[Shape, int] = {}
            for kid, count in shape.kids:
                other = self.colour(kid, cls)
                counts[other] = counts.get(other, 0) + count
            key = (shape.type, shape.size, shape.unit, cls, shape.properties, shape.size, True, True, True)
            found = shape.coloured[cls] = self.make(key, counts)
            found.base = shape
        return found


def _by_digest(item: tuple[Shape, int]) -> bytes:
    return item[0].digest


def _digest(key: ShapeKey, kids: Iterable[tuple[Shape, int]]) -> bytes:
    """Orders children the same way in every process, so that a search takes the same steps everywhere."""
    content = [sorted(part) if isinstance(part, frozenset) else part for part in key]
    digest = blake2b(repr(content).encode(), digest_size=8)
    for kid, count in kids:
        digest.update(kid.digest + count.to_bytes(8, "little"))
    return digest.digest()


def multiplicities(root: Shape) -> dict[Shape, int]:
    """How often each shape occurs below and including `root`."""
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
