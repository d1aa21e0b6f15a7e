"""Read a cluster's graph and its subsystems from JGF, the JSON Graph Format.

Nodes are a dict by id (the prototype) or a list (RFC 40, flux-sched). The root is the vertex
without a parent. Only `contains` edges count; `in` edges are their reverse. The tree is built with all
checks of `Graph.build`, fast enough for millions of vertices.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from rainbow_sched.graphs.formats.jgf.parts import Section, pieces, sections
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, build_subsystem, refuse_duplicate
from rainbow_sched.graphs.formats.jgf.vertices import Columns, read_vertices
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH, NOTHING, Graph, Subsystem, Vertex

_Numbers: TypeAlias = npt.NDArray[np.int32]
_NONE = -1


class _Contains(msgspec.Struct, gc=False, tag_field="relation", tag="contains"):
    source: str
    target: str


class _In(msgspec.Struct, gc=False, tag_field="relation", tag="in"):
    """The reverse of a `contains` edge; its ends are not decoded."""


_source, _target = attrgetter("source"), attrgetter("target")
_edges = msgspec.json.Decoder(list[_Contains | _In])


def read_graph(text: bytes | str, limits: GraphLimits = DEFAULT) -> Graph:
    """Read the dominant graph of a JGF document; raise `Invalid` or `TooLarge` with the vertex."""
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    if not columns.ids:
        raise Invalid("a graph needs at least one vertex")
    tree = _ContainmentTree(columns.ids)
    _read_edges(edges, limits, tree.add)
    return tree.graph(columns)


def read_subsystem(name: str, graph: Graph, text: bytes | str, limits: GraphLimits = DEFAULT) -> Subsystem:
    """Read a subsystem of `graph`'s cluster; each vertex attaches to the cluster or to another vertex of the subsystem.

    Real graphs begin with a vertex for the subsystem itself, such as `io0`, that attaches to
    nothing. It is left out, and vertices that attach only to it attach to nothing.
    """
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    pairs: list[tuple[str, str]] = []
    _read_edges(edges, limits, lambda parents, children: pairs.extend(zip(parents, children, strict=True)))
    vertices = [
        Vertex(
            id=id,
            type=columns.types[i],
            name=columns.names[i],
            size=columns.sizes[i],
            unit=columns.units[i],
            metadata=columns.metadata.get(i, NOTHING),
        )
        for i, id in enumerate(columns.ids)
    ]
    dominant = graph.positions()
    top = _own_root(name, vertices, pairs)
    if top is None or not any(parent in dominant for parent, _ in pairs):
        return Subsystem.build(name, dominant, vertices, pairs)
    return build_subsystem(name, dominant, [v for v in vertices if v.id != top], pairs, nowhere=top)


def _own_root(name: str, vertices: list[Vertex], pairs: list[tuple[str, str]]) -> str | None:
    """Return the parentless vertex for the subsystem as a whole: `io0`, or one of the subsystem's own type."""
    children = {child for _, child in pairs}
    roots = [v for v in vertices if v.id not in children]
    if len(roots) == 1 and len(vertices) > 1 and (roots[0].id == f"{name}0" or roots[0].type == name):
        return roots[0].id
    return None


def _read_edges(section: Section, limits: GraphLimits, take: Callable[[list[str], list[str]], None]) -> None:
    """Pass all `contains` edges, in the order of the text, to `take` as lists of parents and children."""
    seen = 0

    def usual(piece: bytes) -> None:
        nonlocal seen
        edges = _edges.decode(piece)
        kept = [edge for edge in edges if type(edge) is _Contains]
        seen += len(edges)
        take(list(map(_source, kept)), list(map(_target, kept)))

    def any_kind(piece: bytes) -> None:
        nonlocal seen
        edges = json.loads(piece)
        ends = [
            (_end(edge, "source", number), _end(edge, "target", number))
            for number, edge in enumerate(edges, seen)
            if _relation(edge, number) == "contains"
        ]
        seen += len(edges)
        take([source for source, _ in ends], [target for _, target in ends])

    for _ in pieces(section, usual, any_kind):
        if seen > limits.edges:
            raise TooLarge(f"a graph of up to {limits.vertices} vertices has at most {limits.edges} edges")


def _relation(edge: object, number: int) -> object:
    """Return the relation as RFC 40, the prototype or old flux-sched write it; the default is `contains`."""
    if not isinstance(edge, dict):
        raise Invalid('an edge is an object {"source", "target", "relation"}', where=f"edge {number}")
    if "relation" in edge:
        return edge["relation"]
    metadata = edge.get("metadata")
    if not isinstance(metadata, dict):
        return "contains"
    if "relation" in metadata:
        return metadata["relation"]
    named = metadata.get("name")
    if isinstance(named, dict):
        return named.get("containment")
    return "contains" if metadata.get("subsystem", "containment") == "containment" else None


def _end(edge: dict[str, object], key: str, number: int) -> str:
    value = edge.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Invalid(f"{key} is the id of a vertex, not {value!r}", where=f"edge {number}")
    return value


class _ContainmentTree:
    """Collect `contains` edges; each vertex has one parent."""

    __slots__ = ("_ids", "_parents", "_positions")

    def __init__(self, ids: Sequence[str]) -> None:
        """Number the vertices; raise `Invalid` for a duplicate id."""
        self._ids = ids
        self._positions = dict(zip(ids, range(len(ids)), strict=True))
        if len(self._positions) < len(ids):
            refuse_duplicate(ids)
        self._parents: _Numbers = np.full(len(ids), _NONE, dtype=np.int32)

    def add(self, sources: list[str], targets: list[str]) -> None:
        """Add edges; raise `Invalid` for an unknown end, a vertex inside itself or a second parent."""
        at = self._positions.__getitem__
        try:
            parents: _Numbers = np.fromiter(map(at, sources), np.int32, len(sources))
            children: _Numbers = np.fromiter(map(at, targets), np.int32, len(targets))
        except KeyError:
            self._refuse_unknown(sources, targets)
        if (inside := np.flatnonzero(parents == children)).size:
            raise Invalid("contains itself", where=f"vertex {sources[inside[0]]!r}")
        before = self._parents[children]
        free = before == _NONE
        self._parents[children[free][::-1]] = parents[free][::-1]  # with duplicates the last one wins: the first edge
        clash = np.flatnonzero(self._parents[children] != parents)
        if clash.size:
            child, other = children[clash[0]], parents[clash[0]]
            first = self._ids[self._parents[child]]
            raise Invalid(f"has two parents, {first!r} and {self._ids[other]!r}", where=f"vertex {self._ids[child]!r}")

    def _refuse_unknown(self, sources: list[str], targets: list[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            for end in (source, target):
                if end not in self._positions:
                    raise Invalid(
                        f"the edge {source!r} contains {target!r} names a vertex that does not exist",
                        where=f"vertex {end!r}",
                    )

    def graph(self, columns: Columns) -> Graph:
        """Return the graph, parents before children."""
        self._positions.clear()  # a million entries that are no longer needed
        order = self._top_down()
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size, dtype=np.int32)
        above = self._parents[order]
        above[1:] = rank[above[1:]]
        new_number = rank.tolist() if columns.metadata else []
        turned = order.tolist()
        return Graph(
            ids=[columns.ids[i] for i in turned],
            names=[columns.names[i] for i in turned],
            types=[columns.types[i] for i in turned],
            parents=array("i", above.tobytes()),
            sizes=array("q", np.frombuffer(columns.sizes, np.int64)[order].tobytes()),
            units=[columns.units[i] for i in turned],
            metadata=dict(sorted((new_number[i], found) for i, found in columns.metadata.items())),
        )

    def _top_down(self) -> _Numbers:
        """Return the vertices level by level, children in the order of their parents, then as given."""
        parents = self._parents
        roots = np.flatnonzero(parents == _NONE).astype(np.int32)
        if roots.size != 1:
            self._refuse_roots(roots)
        grouped = np.argsort(parents, kind="stable").astype(np.int32)[1:]  # all but the root, by parent
        counts = np.bincount(parents[grouped], minlength=parents.size)
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        levels, front = [roots], roots
        while True:
            many = counts[front]
            if not (total := int(many.sum())):
                break
            if len(levels) == MAX_GRAPH_DEPTH:
                deep = grouped[starts[front[many > 0][0]]]
                raise TooLarge(f"a graph is at most {MAX_GRAPH_DEPTH} levels deep", where=f"vertex {self._ids[deep]!r}")
            skipped = np.repeat(starts[front] - (np.cumsum(many) - many), many)
            front = grouped[skipped + np.arange(total)]
            levels.append(front)
        order = np.concatenate(levels)
        if order.size < parents.size:
            lost = np.setdiff1d(np.arange(parents.size), order)[0]
            raise Invalid("is part of a cycle", where=f"vertex {self._ids[lost]!r}")
        return order

    def _refuse_roots(self, roots: _Numbers) -> None:
        if not roots.size:
            raise Invalid(
                "every vertex is inside another: the graph has a cycle and no root", where=f"vertex {self._ids[0]!r}"
            )
        raise Invalid(
            f"there are {roots.size} vertices without a parent; one root is needed "
            f"({self._ids[roots[0]]!r} was found first)",
            where=f"vertex {self._ids[roots[1]]!r}",
        )
