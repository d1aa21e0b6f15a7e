"""Write a graph or a subsystem as JGF, with a dict of nodes as the prototype does."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rainbow_sched.model.graph import Graph, Subsystem, Vertex


def to_jgf(graph: Graph) -> str:
    """Return the graph as JGF text with `contains` and `in` edges."""
    paths: list[str] = []
    for i, parent in enumerate(graph.parents):
        above = paths[parent] if parent >= 0 else ""
        paths.append(f"{above}/{graph.names[i] or graph.ids[i]}")
    nodes = (_node(graph.vertex(i), paths[i], i) for i in range(len(graph)))
    edges = ((graph.ids[parent], graph.ids[i]) for i, parent in enumerate(graph.parents) if parent >= 0)
    return _document(nodes, edges)


def subsystem_to_jgf(subsystem: Subsystem) -> str:
    """Return the subsystem as JGF text: its vertices, and edges from the vertices that they attach to."""

    def edges() -> Iterator[tuple[str, str]]:
        for vertex, parent, hosts in subsystem.items():
            if parent >= 0:
                yield subsystem.vertices[parent].id, vertex.id
            yield from ((host, vertex.id) for host in hosts)

    nodes = (_node(vertex, "", i) for i, vertex in enumerate(subsystem.vertices))
    return _document(nodes, edges())


def _node(vertex: Vertex, path: str, number: int) -> tuple[str, dict[str, object]]:
    metadata: dict[str, object] = {
        **vertex.metadata,
        "type": vertex.type,
        "basename": vertex.name.rstrip("0123456789") or vertex.type,
        "name": vertex.name,
        "uniq_id": number,
        "size": vertex.size,
        "unit": vertex.unit,
        "exclusive": False,
        "rank": -1,
    }
    if path and vertex.name:  # a reader would use the end of the path as the name of an unnamed vertex
        metadata["paths"] = {"containment": path}
    return vertex.id, metadata


def _document(nodes: Iterator[tuple[str, dict[str, object]]], edges: Iterator[tuple[str, str]]) -> str:
    links = []
    for parent, child in edges:
        links.append({"source": parent, "target": child, "relation": "contains"})
        links.append({"source": child, "target": parent, "relation": "in"})
    listed = {id: {"label": id, "metadata": metadata} for id, metadata in nodes}
    return json.dumps({"graph": {"directed": True, "nodes": listed, "edges": links}}, separators=(",", ":"))
