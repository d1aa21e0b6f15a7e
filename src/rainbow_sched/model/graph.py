"""A cluster's resource graph (a tree of vertices) and its subsystems.

A `Graph` holds columns instead of objects, so that a million vertices fit in memory; `vertex(i)`
builds an object on demand. Parents have lower numbers than their children; the root is 0. A
`Subsystem` is another graph of the same cluster; its vertices attach to vertices of the dominant
graph or to each other.

`Graph.build` and `Subsystem.build` raise `Invalid` with the vertex for cycles, two parents,
unknown endpoints, duplicate ids, bad sizes and excessive depth.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rainbow_sched.model.errors import Invalid, TooLarge

MAX_VERTICES = 2_000_000  # bounds the memory of one graph
MAX_GRAPH_DEPTH = 64  # levels; bounds the time and the stack of what walks a graph
MAX_SIZE = 2**53  # units of a vertex; whole numbers up to this are exact in a float
NOTHING: Mapping[str, object] = MappingProxyType({})


class Mark(enum.StrEnum):
    """State of a vertex and everything below it, set by an operator or a manager."""

    UP = "up"
    DOWN = "down"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """One resource: its type, size and metadata."""

    id: str
    type: str
    name: str = ""
    size: int = 1
    unit: str = ""
    metadata: Mapping[str, object] = field(default_factory=lambda: NOTHING)  # the site's own keys, any JSON type


@dataclass(frozen=True, slots=True)
class Graph:
    """The dominant graph. Column `i` of each field belongs to vertex `i`; parents come first."""

    ids: Sequence[str]
    names: Sequence[str]
    types: Sequence[str]  # interned strings
    parents: array[int]  # -1 for the root
    sizes: array[int]
    units: Sequence[str]
    metadata: Mapping[int, Mapping[str, object]] = field(default_factory=dict)  # only of vertices with metadata

    @staticmethod
    def build(vertices: Iterable[Vertex], edges: Iterable[tuple[str, str]]) -> Graph:
        """Build from vertices in any order and `contains` edges (parent id, child id); raise `Invalid` if no tree."""
        kept = _by_id(vertices, "graph")
        if not kept:
            raise Invalid("a graph needs at least one vertex")
        parent = _parents(kept, edges)
        roots = [id for id in kept if id not in parent]
        if not roots:
            raise Invalid("every vertex is inside another: the graph has a cycle and no root")
        if len(roots) > 1:
            raise Invalid(
                f"there are {len(roots)} vertices without a parent; one root is needed ({roots[0]!r} was found first)",
                where=f"vertex {roots[1]!r}",
            )
        order = _top_down(kept, parent)
        position = {id: i for i, id in enumerate(order)}
        intern: dict[str, str] = {}
        ordered = [kept[id] for id in order]
        return Graph(
            ids=order,
            names=[v.name for v in ordered],
            types=[intern.setdefault(v.type, v.type) for v in ordered],
            parents=array("i", (position[parent[id]] if id in parent else -1 for id in order)),
            sizes=array("q", (v.size for v in ordered)),
            units=[intern.setdefault(v.unit, v.unit) for v in ordered],
            metadata={i: v.metadata for i, v in enumerate(ordered) if v.metadata},
        )

    def __len__(self) -> int:
        return len(self.ids)

    def vertex(self, i: int) -> Vertex:
        """Return vertex `i` as an object."""
        return Vertex(
            id=self.ids[i],
            type=self.types[i],
            name=self.names[i],
            size=self.sizes[i],
            unit=self.units[i],
            metadata=self.metadata.get(i, NOTHING),
        )

    def children(self) -> list[list[int]]:
        """Build the list of children of each vertex, in order."""
        below: list[list[int]] = [[] for _ in range(len(self.ids))]
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent].append(i)
        return below

    def positions(self) -> dict[str, int]:
        """Return the number of each vertex by id."""
        return {id: i for i, id in enumerate(self.ids)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """A named graph that attaches to the dominant graph. Parents come first."""

    name: str
    vertices: tuple[Vertex, ...]
    parents: tuple[int, ...]  # the parent within the subsystem, or -1
    hangs_on: tuple[tuple[str, ...], ...]  # ids of the dominant vertices that each vertex attaches to

    @staticmethod
    def build(
        name: str,
        dominant_ids: Iterable[str] | Mapping[str, int],
        vertices: Iterable[Vertex],
        edges: Iterable[tuple[str, str]],
    ) -> Subsystem:
        """Build from vertices and `contains` edges whose parent is a dominant id or a vertex of the subsystem."""
        dominant = dominant_ids if isinstance(dominant_ids, Mapping) else dict.fromkeys(dominant_ids, 0)
        kept = _by_id(vertices, "subsystem")
        for id in kept:
            if id in dominant:
                raise Invalid(
                    f"the cluster's own graph has a vertex of this id; subsystem {name!r} needs ids of its own",
                    where=f"vertex {id!r}",
                )
        if not kept:
            raise Invalid(f"subsystem {name!r} has no vertices")
        inner: dict[str, str] = {}
        outer: dict[str, list[str]] = {}
        for source, target in edges:
            if target not in kept:
                raise Invalid(
                    f"the edge from {source!r} leads to no vertex of subsystem {name!r}", where=f"vertex {target!r}"
                )
            if source in kept:
                if inner.setdefault(target, source) != source:
                    raise Invalid(f"has two parents, {inner[target]!r} and {source!r}", where=f"vertex {target!r}")
            elif source in dominant:
                hung = outer.setdefault(target, [])
                if source not in hung:
                    hung.append(source)
            else:
                raise Invalid(
                    f"attaches to {source!r}, which is neither in the cluster's graph nor in subsystem {name!r}",
                    where=f"vertex {target!r}",
                )
        for id in kept:
            if id not in inner and id not in outer:
                raise Invalid(
                    "attaches to nothing; add a 'contains' edge from a vertex of the cluster or of the subsystem",
                    where=f"vertex {id!r}",
                )
        order = _top_down(kept, inner)
        position = {id: i for i, id in enumerate(order)}
        return Subsystem(
            name=name,
            vertices=tuple(kept[id] for id in order),
            parents=tuple(position[inner[id]] if id in inner else -1 for id in order),
            hangs_on=tuple(tuple(outer.get(id, ())) for id in order),
        )

    def items(self) -> Iterator[tuple[Vertex, int, tuple[str, ...]]]:
        """Return each vertex with its parent's number and the ids that it attaches to."""
        return zip(self.vertices, self.parents, self.hangs_on, strict=True)


def _by_id(vertices: Iterable[Vertex], what: str) -> dict[str, Vertex]:
    """Return the vertices by id; raise for an invalid one, two of one id, or too many."""
    kept: dict[str, Vertex] = {}
    for vertex in vertices:
        if not vertex.id:
            raise Invalid("a vertex needs an id")
        where = f"vertex {vertex.id!r}"
        if not vertex.type:
            raise Invalid("a vertex needs a type", where=where)
        if not isinstance(vertex.size, int) or isinstance(vertex.size, bool) or not 1 <= vertex.size <= MAX_SIZE:
            raise Invalid(f"a size must be a whole number from 1 to {MAX_SIZE}, not {vertex.size!r}", where=where)
        if vertex.id in kept:
            raise Invalid("there are two vertices with this id", where=where)
        kept[vertex.id] = vertex
        if len(kept) > MAX_VERTICES:
            raise TooLarge(f"a {what} has at most {MAX_VERTICES} vertices")
    return kept


def _parents(kept: Mapping[str, Vertex], edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    parent: dict[str, str] = {}
    for source, target in edges:
        for end in (source, target):
            if end not in kept:
                raise Invalid(
                    f"the edge {source!r} contains {target!r} names a vertex that does not exist",
                    where=f"vertex {end!r}",
                )
        if source == target:
            raise Invalid("contains itself", where=f"vertex {source!r}")
        if parent.setdefault(target, source) != source:
            raise Invalid(f"has two parents, {parent[target]!r} and {source!r}", where=f"vertex {target!r}")
    return parent


def _top_down(kept: Mapping[str, Vertex], parent: Mapping[str, str]) -> list[str]:
    """Return all ids, parents first and else in the given order; raise for a cycle or too deep a path."""
    below: dict[str, list[str]] = {}
    for child in kept:
        if child in parent:
            below.setdefault(parent[child], []).append(child)
    order: list[str] = []
    front = [id for id in kept if id not in parent]
    depth = 0
    while front:
        depth += 1
        if depth > MAX_GRAPH_DEPTH:
            raise TooLarge(f"a graph is at most {MAX_GRAPH_DEPTH} levels deep", where=f"vertex {front[0]!r}")
        order.extend(front)
        front = [child for id in front for child in below.get(id, ())]
    if len(order) < len(kept):
        placed = set(order)
        lost = next(id for id in kept if id not in placed)
        raise Invalid("is part of a cycle", where=f"vertex {lost!r}")
    return order
