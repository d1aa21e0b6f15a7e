"""A cluster's graph folded: equal subtrees are one shape, so ten thousand nodes alike are one shape and a count.

`Fold` is the whole graph (*ever*). `folded_now` folds it again with what is marked, taken or
named, and touches only the vertices that differ. A shape is interned: the same content is the
same object, across all clusters of a fleet.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

from rainbow.model.graph import Graph, Subsystem
from rainbow.scheduler.fold_facts import Facts

NO_PROPERTIES: frozenset[str] = frozenset()


class Shape:
    """A subtree by content. Children are shapes with how often each occurs; digests order them."""

    __slots__ = (
        "__weakref__",
        "allowed",
        "clean",
        "cls",
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
    digest: bytes
    offer: tuple[tuple[tuple[str, str], int], ...] | None  # kept here by the index: what it offers when free
    kids: tuple[tuple[Shape, int], ...]


class Shapes:
    """The interning table of shapes; shapes that nobody holds vanish."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()

    def make(self, key: tuple[object, ...], counts: Mapping[Shape, int]) -> Shape:
        """The one shape with this key (see `Fold._own`) and these children."""
        full = (*key, frozenset(counts.items()))
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
            ) = key  # type: ignore[assignment]  # the key is built by `_own` in this order
            shape.kids = tuple(sorted(counts.items(), key=_by_digest))
            shape.offer = None
            shape.digest = _digest(key, shape.kids)
            self._known[full] = shape
        return shape


def _by_digest(item: tuple[Shape, int]) -> bytes:
    return item[0].digest


def _digest(key: tuple[object, ...], kids: Iterable[tuple[Shape, int]]) -> bytes:
    """Orders children the same way in every process, so that a search takes the same steps everywhere."""
    content = [sorted(part) if isinstance(part, frozenset) else part for part in key]
    digest = blake2b(repr(content).encode(), digest_size=8)
    for kid, count in kids:
        digest.update(kid.digest + count.to_bytes(8, "little"))
    return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What differs from the whole graph, by vertex number."""

    taken: Mapping[int, int]  # units used or placed
    down: frozenset[int]  # down or drained vertices, without those below them
    allowed: Callable[[int], bool] | None = None  # None: the request names no hosts
    touched: frozenset[int] = frozenset()  # further vertices whose `allowed` may differ


class Children(Sequence["array[int]"]):
    """For each vertex the numbers of its children, in two flat columns instead of a list per vertex."""

    __slots__ = ("_first", "_kids")

    def __init__(self, parents: array[int]) -> None:
        first = array("i", bytes(4 * (len(parents) + 1)))
        for parent in parents:
            if parent >= 0:
                first[parent + 1] += 1
        for i in range(len(parents)):
            first[i + 1] += first[i]
        at = first[:]
        self._kids = array("i", bytes(4 * max(0, len(parents) - 1)))
        for i, parent in enumerate(parents):
            if parent >= 0:
                self._kids[at[parent]] = i
                at[parent] += 1
        self._first = first

    def __len__(self) -> int:
        return len(self._first) - 1

    def __getitem__(self, i: int) -> array[int]:  # type: ignore[override]  # nobody slices it
        return self._kids[self._first[i] : self._first[i + 1]]


class _Nothing(Sequence[frozenset[str]]):
    """The properties of a graph whose vertices carry none, without a column."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: int) -> frozenset[str]:  # type: ignore[override]  # nobody slices it
        return NO_PROPERTIES


class Fold:
    """A graph with its subsystems, folded as if all of it were free."""

    def __init__(self, graph: Graph, subsystems: Iterable[Subsystem], facts: Facts, shapes: Shapes) -> None:
        self.graph = graph
        self.shapes = shapes
        self.types = frozenset(graph.types)
        self.units: dict[str, set[str]] = {}
        self._of_type: dict[str, array[int]] = {}
        self.kids = Children(graph.parents)
        self.subsystems = tuple(sorted(subsystems, key=lambda subsystem: subsystem.name))
        hung: dict[str, frozenset[int]] = {}
        for subsystem in self.subsystems:
            for id, found in facts.read(subsystem).items():
                hung[id] = hung.get(id, frozenset()) | found
        self.classes, self.properties = self._top_down(facts, hung)
        self.vertex_shapes: list[Shape] = self._bottom_up()
        for type, unit in zip(graph.types, graph.units, strict=True):
            self.units.setdefault(type, set()).add(unit)

    @property
    def root(self) -> Shape:
        """The shape of the whole graph."""
        return self.vertex_shapes[0]

    def _top_down(
        self, facts: Facts, hung: Mapping[str, frozenset[int]]
    ) -> tuple[array[int], Sequence[frozenset[str]]]:
        nothing = frozenset[int]()
        classes = array("i", bytes(4 * len(self.graph)))
        properties: Sequence[frozenset[str]] = _Nothing(len(self.graph))
        if any("properties" in metadata for metadata in self.graph.metadata.values()):
            properties = self._properties()
        for i, (id, parent) in enumerate(zip(self.graph.ids, self.graph.parents, strict=True)):
            above = classes[parent] if parent >= 0 else 0
            own = hung.get(id, nothing)
            classes[i] = facts.join(above, own) if own else above
        return classes, properties

    def _properties(self) -> list[frozenset[str]]:
        found: list[frozenset[str]] = []
        known: dict[frozenset[str], frozenset[str]] = {}
        for i, parent in enumerate(self.graph.parents):
            carried = found[parent] if parent >= 0 else NO_PROPERTIES
            if i in self.graph.metadata:
                mine = carried | properties_of(self.graph.metadata[i])
                carried = known.setdefault(mine, mine)
            found.append(carried)
        return found

    def _bottom_up(self) -> list[Shape]:
        graph = self.graph
        made: list[Shape] = [None] * len(graph)  # type: ignore[list-item]  # each is set before it is read
        for i in range(len(graph) - 1, -1, -1):
            counts: dict[Shape, int] = {}
            for kid in self.kids[i]:
                counts[made[kid]] = counts.get(made[kid], 0) + 1
            made[i] = self.shapes.make(self._own(i, graph.sizes[i], True, True, True), counts)
        return made

    def _own(self, i: int, free: int, clean: bool, whole: bool, allowed: bool) -> tuple[object, ...]:
        graph = self.graph
        return (
            graph.types[i],
            graph.sizes[i],
            graph.units[i],
            self.classes[i],
            self.properties[i],
            free,
            clean,
            whole,
            allowed,
        )

    def of_type(self, type: str) -> array[int]:
        """The numbers of the vertices of a type."""
        if not self._of_type:
            for i, each in enumerate(self.graph.types):
                self._of_type.setdefault(each, array("i")).append(i)
        return self._of_type.get(type, array("i"))

    def below(self, i: int) -> Iterable[int]:
        """Vertex `i` and all inside it, parents first."""
        stack = [i]
        while stack:
            at = stack.pop()
            yield at
            stack.extend(self.kids[at])

    def differing(self, state: State) -> list[int]:
        """Vertices whose shape differs under `state`, children before parents."""
        found: set[int] = set()
        for i in state.down | state.touched:
            if i not in found:
                found.update(self.below(i))
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
            made[i] = self.shapes.make(self._own(i, free, clean, whole, allowed), counts)
            if parents[i] >= 0:
                changed.setdefault(parents[i], []).append(i)
        return made

    def _counts(self, i: int, changed: Iterable[int], made: Mapping[int, Shape]) -> dict[Shape, int]:
        counts = dict(self.vertex_shapes[i].kids)
        for kid in changed:
            before = self.vertex_shapes[kid]
            if counts[before] == 1:
                del counts[before]
            else:
                counts[before] -= 1
            counts[made[kid]] = counts.get(made[kid], 0) + 1
        return counts


def properties_of(metadata: Mapping[str, object]) -> frozenset[str]:
    """The names under `properties`: a list of names, or a mapping whose keys are names."""
    found = metadata.get("properties")
    if isinstance(found, Mapping):
        return frozenset(str(key) for key in found)
    if isinstance(found, (list, tuple, set, frozenset)):
        return frozenset(str(item) for item in found)
    return NO_PROPERTIES


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
