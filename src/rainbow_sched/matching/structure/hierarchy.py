"""Derived columns of a graph without subsystems and state, shared by all clusters with the same graph."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from rainbow_sched.matching.structure.shapes import NO_PROPERTIES, Shape, ShapeKey, Shapes
from rainbow_sched.model.binding import HOST
from rainbow_sched.model.graph import Graph

MAX_CACHED_HOSTS = 16_384  # per type of leaf; bounds the memory of the cache
Leaves: TypeAlias = "tuple[tuple[int, int], ...] | array[int]"


class Children:
    """The children of each vertex, in two flat columns."""

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

    def __getitem__(self, i: int) -> array[int]:
        return self._kids[self._first[i] : self._first[i + 1]]

    def has(self, i: int) -> bool:
        """Return True if vertex `i` has children."""
        return self._first[i] != self._first[i + 1]

    def none_below(self, kids: array[int]) -> bool:
        """Return True if none of these children has children; always False if their numbers are not consecutive."""
        if not kids:
            return True
        consecutive = kids[-1] - kids[0] + 1 == len(kids)
        return consecutive and self._first[kids[0]] == self._first[kids[-1] + 1]


class Structure:
    """Children, properties, and the shape of each vertex when free."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self.graph = graph
        self.kids = Children(graph.parents)
        self.units: dict[str, set[str]] = {}
        for type, unit in zip(graph.types, graph.units, strict=True):
            self.units.setdefault(type, set()).add(unit)
        has_properties = any("properties" in metadata for metadata in graph.metadata.values())
        self._properties = self._inherited() if has_properties else []
        self.plain = self._bottom_up(shapes)
        self._of_type: dict[str, array[int]] = {}
        self._leaves: dict[str, dict[int, Leaves]] = {}  # by type, then by the vertex around them
        self._inner = array("i", sorted(set(graph.parents) - {-1}))  # vertices with children
        self._inner_types = frozenset(graph.types[i] for i in self._inner)
        self.hosts = len(self._inner)
        self.root = graph.types[0]
        self.kind = shapes.kind(self.units, self._inner_types, self.root)

    def of_type(self, type: str) -> array[int]:
        """Return the vertices of a type."""
        cached = self._of_type.get(type)
        if cached is None:
            cached = self._of_type[type] = array("i", [i for i, each in enumerate(self.graph.types) if each == type])
        return cached

    def hosts_named(self, name: str) -> Sequence[int]:
        """Return the hosts with this name."""
        return self._hosts_by_name.get(name, ())

    @cached_property
    def _hosts_by_name(self) -> dict[str, list[int]]:
        hosts: dict[str, list[int]] = {}
        for i in self.of_type(HOST):
            hosts.setdefault(self.name(i), []).append(i)
        return hosts

    def only_leaves(self, type: str) -> bool:
        """True if no vertex of a type has children."""
        return type not in self._inner_types

    @cached_property
    def positions(self) -> dict[str, int]:
        """The number of each vertex by id."""
        return self.graph.positions()

    @cached_property
    def host_numbers(self) -> array[int]:
        """The number of each vertex with children among these; -1 for others."""
        numbers = array("i", [-1]) * len(self.graph)
        for number, i in enumerate(self._inner):
            numbers[i] = number
        return numbers

    def below(self, i: int) -> Iterator[int]:
        """Iterate over vertex `i` and all vertices inside, parents first."""
        stack = [i]
        while stack:
            at = stack.pop()
            yield at
            stack.extend(self.kids[at])

    def above(self, i: int) -> Iterator[int]:
        """Iterate over vertex `i` and all vertices around it, innermost first; over nothing if `i` is below 0."""
        while i >= 0:
            yield i
            i = self.graph.parents[i]

    def name(self, i: int) -> str:
        """Return the name of a vertex, or its id."""
        return self.graph.names[i] or self.graph.ids[i]

    def inside(self, i: int, type: str) -> Sequence[int]:
        """Return the vertices of a type inside vertex `i`, in the graph's order."""
        types, kids = self.graph.types, self.kids
        children = kids[i]
        leaves = kids.none_below(children)
        if leaves and children and types[children[0] : children[-1] + 1].count(type) == len(children):
            return children
        found = [kid for kid in children if types[kid] == type]
        if leaves:
            return found
        deeper = [kid for kid in children if kids.has(kid)]
        if deeper:
            for kid in deeper:
                found.extend(self.inside(kid, type))
            found.sort()
        return found

    def leaves_in(self, i: int, type: str) -> Leaves:
        """Return the leaves of a type inside vertex `i`, as ranges if each is one unit; the result is cached."""
        cache = self.leaves_of(type)
        if len(cache) >= MAX_CACHED_HOSTS:
            cache.clear()
        leaves = cache[i] = _ranges(self.inside(i, type), self.graph.sizes)
        return leaves

    def leaves_of(self, type: str) -> dict[int, Leaves]:
        """Return the cached results of `leaves_in` for a type, by vertex."""
        return self._leaves.setdefault(type, {})

    def properties(self, i: int) -> frozenset[str]:
        """Return the properties of vertex `i` and of the vertices above it."""
        return self._properties[i] if self._properties else NO_PROPERTIES

    def _inherited(self) -> list[frozenset[str]]:
        by_vertex: list[frozenset[str]] = []
        interned: dict[frozenset[str], frozenset[str]] = {}
        for i, parent in enumerate(self.graph.parents):
            properties = by_vertex[parent] if parent >= 0 else NO_PROPERTIES
            if i in self.graph.metadata:
                properties = properties | properties_of(self.graph.metadata[i])
                properties = interned.setdefault(properties, properties)
            by_vertex.append(properties)
        return by_vertex

    def own(self, i: int, cls: int, free: int, state: tuple[bool, bool, bool] = (True, True, True)) -> ShapeKey:
        """Return the key of a vertex's shape; `state` is (clean, whole, allowed)."""
        graph = self.graph
        return (graph.types[i], graph.sizes[i], graph.units[i], cls, self.properties(i), free, *state)

    def _bottom_up(self, shapes: Shapes) -> list[Shape]:
        made: list[Shape] = []
        last = len(self.graph) - 1
        for i in range(last, -1, -1):
            counts: dict[Shape, int] = {}
            for kid in self.kids[i]:
                shape = made[last - kid]
                counts[shape] = counts.get(shape, 0) + 1
            made.append(shapes.make(self.own(i, 0, self.graph.sizes[i]), counts))
        made.reverse()
        return made


def _ranges(vertices: Sequence[int], sizes: array[int]) -> Leaves:
    """Return vertices of one unit each as ranges (first, end), and other vertices unchanged."""
    if vertices and vertices[-1] - vertices[0] + 1 == len(vertices):
        first, end = vertices[0], vertices[-1] + 1
        if sizes[first:end].count(1) == len(vertices):
            return ((first, end),)
    if any(sizes[i] != 1 for i in vertices):
        return array("i", vertices)
    ranges: list[tuple[int, int]] = []
    for i in vertices:
        if ranges and ranges[-1][1] == i:
            ranges[-1] = (ranges[-1][0], i + 1)
        else:
            ranges.append((i, i + 1))
    return tuple(ranges)


def properties_of(metadata: Mapping[str, object]) -> frozenset[str]:
    """Return the names under `properties`: a list of names, or a mapping whose keys are names."""
    properties = metadata.get("properties")
    if isinstance(properties, (Mapping, list, tuple, set, frozenset)):
        return frozenset(map(str, properties))
    return NO_PROPERTIES
