"""Write graphs and subsystems in the compact form, for round-trip tests of the readers."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import NamedTuple

from rainbow_sched.graphs.formats.compact import GRAPH_FORM, SUBSYSTEM_FORM
from rainbow_sched.graphs.tree import Folded
from rainbow_sched.model.graph import Graph, Subsystem
from rainbow_sched.model.hostlist import collapse


def to_compact(graph: Graph) -> dict[str, object]:
    """Write a graph with equal neighbours folded; `from_compact` reads an equal graph."""
    defaults = _Defaults(_depth_first(graph), {})
    for i in range(len(graph)):
        if graph.types[i] == "node":
            defaults.nodes[i] = len(defaults.nodes)
    root = _entry(graph, _fold_neighbours(graph), defaults, (1,))
    del root["type"], root["name"]
    if graph.types[0] != "cluster":
        root = {"type": graph.types[0], **root}
    return {"rainbow": GRAPH_FORM, "cluster": graph.names[0], **root}


def _fold_neighbours(graph: Graph) -> Folded:
    """Fold equal siblings that follow each other, so that the graph can be unfolded exactly."""
    below = graph.children()
    content: list[object] = [None] * len(graph)
    for i in range(len(graph) - 1, -1, -1):
        metadata = json.dumps(graph.metadata[i], sort_keys=True) if i in graph.metadata else ""
        content[i] = (graph.types[i], graph.sizes[i], graph.units[i], metadata, [content[kid] for kid in below[i]])

    def entry(members: list[int], count: int) -> Folded:
        lengths = [len(list(run)) for _, run in groupby(below[members[0]], key=content.__getitem__)]
        inside, at = [], 0
        for length in lengths:
            inside.append(entry([kid for member in members for kid in below[member][at : at + length]], length))
            at += length
        return Folded(tuple(members), count, tuple(inside))

    return entry([0], 1)


class _Defaults(NamedTuple):
    """Values that need not be written, because `from_compact` uses them as defaults."""

    ids: list[int]
    nodes: dict[int, int]  # numbers in the default names of nodes


def _entry(graph: Graph, folded: Folded, defaults: _Defaults, spans: tuple[int, ...]) -> dict[str, object]:
    i, members = folded.first, folded.members
    entry: dict[str, object] = {"type": graph.types[i]}
    if folded.count > 1:
        entry["count"] = folded.count
    names = [graph.names[m] for m in members]
    numbered = [f"{graph.types[i]}{defaults.nodes.get(m, k % folded.count)}" for k, m in enumerate(members)]
    if names != numbered or not i:
        entry["name"] = _short(names, spans)
    if any(graph.ids[m] != str(defaults.ids[m]) for m in members):
        ids = [graph.ids[m] for m in members]
        entry["id"] = collapse(ids) or ids
    if graph.sizes[i] != 1:
        entry["size"] = graph.sizes[i]
    if graph.units[i]:
        entry["unit"] = graph.units[i]
    metadata = dict(graph.metadata.get(i, {}))
    if "properties" in metadata:
        entry["properties"] = metadata.pop("properties")
    if metadata:
        entry["metadata"] = metadata
    if folded.inside:
        entry["with"] = [
            _entry(graph, part, defaults, tuple(part.count * span for span in (1, *spans))) for part in folded.inside
        ]
    return entry


def _short(names: list[str], spans: tuple[int, ...]) -> str | list[str]:
    """Compress names; `spans` are the lengths after which they may repeat: per parent, grandparent ..."""
    if not any(names):
        return ""
    for span in spans:
        if len(names) > span and names[:span] * (len(names) // span) == names:
            names = names[:span]
            break
    return collapse(names) or names


def _depth_first(graph: Graph) -> list[int]:
    """Return the depth-first number of each vertex, which is its default id."""
    sizes = [1] * len(graph)
    for i in range(len(graph) - 1, 0, -1):
        sizes[graph.parents[i]] += sizes[i]
    numbers, next_free = [0] * len(graph), [1] * len(graph)
    for i in range(1, len(graph)):
        above = graph.parents[i]
        numbers[i] = numbers[above] + next_free[above]
        next_free[above] += sizes[i]
    return numbers


def to_compact_subsystem(subsystem: Subsystem, graph: Graph) -> dict[str, object]:
    """Write a subsystem with nested vertices and compressed names."""
    below: list[list[int]] = [[] for _ in subsystem.vertices]
    tops: list[int] = []
    for i, parent in enumerate(subsystem.parents):
        (below[parent] if parent >= 0 else tops).append(i)
    names = dict(zip(graph.ids, graph.names, strict=True))
    occurrences = Counter(graph.names)

    def reference(id: str) -> str:
        name = names[id]
        return name if name and name not in names and occurrences[name] == 1 else id

    def short(ids: tuple[str, ...]) -> str | list[str]:
        listed = [reference(id) for id in ids]
        return (collapse(listed) if listed else None) or listed

    def entry(i: int) -> dict[str, object]:
        vertex = subsystem.vertices[i]
        values: dict[str, object] = {"type": vertex.type, "id": vertex.id}
        if vertex.name:
            values["name"] = vertex.name
        if subsystem.hangs_on[i] or subsystem.parents[i] < 0:
            values["on"] = short(subsystem.hangs_on[i])
        if vertex.size != 1:
            values["size"] = vertex.size
        if vertex.unit:
            values["unit"] = vertex.unit
        if vertex.metadata:
            values["metadata"] = dict(vertex.metadata)
        if below[i]:
            values["with"] = [entry(child) for child in below[i]]
        return values

    return {"rainbow": SUBSYSTEM_FORM, "name": subsystem.name, "with": [entry(i) for i in tops]}
