"""Read a cluster's graph and its subsystems from JGF, the JSON Graph Format.

Nodes are a dict by id (the prototype) or a list (RFC 40, flux-sched). The root is the vertex
without a parent. Only `contains` edges count; `in` edges are their reverse.
"""

from __future__ import annotations

from rainbow_sched.graphs.formats.jgf.parts import sections
from rainbow_sched.graphs.formats.jgf.tree import ContainmentTree, read_edges
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, build_subsystem
from rainbow_sched.graphs.formats.jgf.vertices import read_vertices
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import NOTHING, Graph, Subsystem, Vertex


def read_graph(text: bytes | str, limits: GraphLimits = DEFAULT) -> Graph:
    """Read the dominant graph of a JGF document; raise `Invalid` or `TooLarge` with the vertex."""
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    if not columns.ids:
        raise Invalid("a graph needs at least one vertex")
    tree = ContainmentTree(columns.ids)
    read_edges(edges, limits, tree.add)
    return tree.graph(columns)


def read_subsystem(name: str, graph: Graph, text: bytes | str, limits: GraphLimits = DEFAULT) -> Subsystem:
    """Read a subsystem of `graph`'s cluster; each vertex attaches to the cluster or to another vertex of the subsystem.

    Real graphs begin with a vertex for the subsystem itself, such as `io0`, that attaches to
    nothing. It is left out, and vertices that attach only to it attach to nothing.
    """
    nodes, edges = sections(text, limits)
    columns = read_vertices(nodes, limits)
    pairs: list[tuple[str, str]] = []
    read_edges(edges, limits, lambda parents, children: pairs.extend(zip(parents, children, strict=True)))
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
