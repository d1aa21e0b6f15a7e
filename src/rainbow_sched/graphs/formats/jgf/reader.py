"""Reads a cluster's graph and its subsystems from JGF, the JSON Graph Format, in both shapes found in the wild.

Nodes are a dict by id (the prototype) or a list (RFC 40, flux-sched). The root is the vertex
that nothing contains, whatever its id. Only `contains` edges count: `in` is their echo.
"""

from __future__ import annotations

from rainbow_sched.graphs.formats.jgf.edges import read_edges
from rainbow_sched.graphs.formats.jgf.parts import sections
from rainbow_sched.graphs.formats.jgf.tree import ContainmentTree
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, build_subsystem
from rainbow_sched.graphs.formats.jgf.vertices import Columns, read_vertices
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import NOTHING, Graph, Subsystem, Vertex


def read_graph(text: bytes | str, limits: GraphLimits = DEFAULT) -> Graph:
    """The dominant graph of a JGF document; raises `Invalid` or `TooLarge` naming the vertex at fault."""
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    if not columns.ids:
        raise Invalid("a graph needs at least one vertex")
    tree = ContainmentTree(columns.ids)
    read_edges(edges, limits, tree.add)
    return tree.graph(columns)


def read_subsystem(name: str, graph: Graph, text: bytes | str, limits: GraphLimits = DEFAULT) -> Subsystem:
    """A subsystem of `graph`'s cluster; each vertex hangs on the cluster or on another vertex of the subsystem.

    Graphs in the wild begin with a vertex for the subsystem itself, `io0`, that hangs on
    nothing and so speaks for nothing. It is left out, and what hangs only on it hangs nowhere.
    """
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    pairs: list[tuple[str, str]] = []
    read_edges(edges, limits, lambda parents, children: pairs.extend(zip(parents, children, strict=True)))
    vertices = [_vertex(columns, i) for i in range(len(columns.ids))]
    dominant = graph.positions()
    top = _own_root(name, vertices, pairs)
    if top is None or not any(parent in dominant for parent, _ in pairs):
        return Subsystem.build(name, dominant, vertices, pairs)
    _refuse_twice(top, vertices)
    return build_subsystem(name, dominant, [v for v in vertices if v.id != top], pairs, nowhere=top)


def _vertex(columns: Columns, i: int) -> Vertex:
    return Vertex(
        id=columns.ids[i],
        type=columns.types[i],
        name=columns.names[i],
        size=columns.sizes[i],
        unit=columns.units[i],
        metadata=columns.metadata.get(i, NOTHING),
    )


def _own_root(name: str, vertices: list[Vertex], pairs: list[tuple[str, str]]) -> str | None:
    """The vertex that stands for the subsystem as a whole: `io0`, or one of the subsystem's own type, in nothing."""
    held = {child for _, child in pairs}
    free = [v for v in vertices if v.id not in held]
    if len(free) == 1 and len(vertices) > 1 and (free[0].id == f"{name}0" or free[0].type == name):
        return free[0].id
    return None


def _refuse_twice(id: str, vertices: list[Vertex]) -> None:
    if sum(v.id == id for v in vertices) > 1:
        raise Invalid("there are two vertices with this id", where=f"vertex {id!r}")
