"""Write graphs, subsystems, marks and used units to the property graph.

The columns of a field let a database compare as Rainbow does: equality across types, and version order.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rainbow_sched.graphs.cypher import queries
from rainbow_sched.graphs.cypher.engine import CypherEngine
from rainbow_sched.matching.structure.facts import fields_of
from rainbow_sched.model.errors import Invalid, NotFound, Unsupported
from rainbow_sched.model.graph import Graph, Mark, Subsystem, Vertex
from rainbow_sched.model.request import Scalar
from rainbow_sched.model.versions import is_number, is_version, texts, version_key

MAX_VERTICES = 100_000  # a row is written in about 0.1 ms; larger graphs belong into the memory backend
EXACT = 2**53  # databases compare numbers as doubles; beyond this, two whole numbers may look equal
_BATCH = 2_000
_BETWEEN = "\n"  # separates types in one text; no type holds it


def key_of(cluster: str, id: str) -> str:
    """Return the key of a vertex; cluster names contain no slash."""
    return f"{cluster}/{id}"


def listed(types: Iterable[str]) -> str:
    """Join types to one text in which a query can find each of them."""
    return _BETWEEN + "".join(f"{type}{_BETWEEN}" for type in types)


def write_graph(engine: CypherEngine, cluster: str, graph: Graph) -> None:
    """Add all vertices and edges of a graph that `check_graph` allows."""
    keys = [key_of(cluster, id) for id in graph.ids]
    spans = _spans(graph.parents)
    kinds, above = _types_around(graph)
    vertices = (
        {
            "key": key,
            "kinds": kinds[i],
            "above": above[i],
            **_vertex_row(cluster, graph.vertex(i), i, graph.parents[i], spans[i]),
        }
        for i, key in enumerate(keys)
    )
    _in_batches(engine, queries.ADD_VERTICES, vertices)
    edges = ({"a": keys[parent], "b": key} for key, parent in zip(keys, graph.parents, strict=True) if parent >= 0)
    _in_batches(engine, queries.ADD_CONTAINS, edges)


def check_graph(graph: Graph) -> None:
    """Raise `Unsupported` if the database cannot hold the graph."""
    if len(graph) > MAX_VERTICES:
        raise Unsupported(
            f"the cypher backend keeps up to {MAX_VERTICES} vertices for a cluster, and this graph has {len(graph)}; "
            "use the memory backend"
        )
    for type in set(graph.types):
        if _BETWEEN in type:
            raise Unsupported(f"the cypher backend cannot keep a type with a line break, as {type!r} is")


def write_subsystem(engine: CypherEngine, cluster: str, subsystem: Subsystem) -> None:
    """Add all vertices of a subsystem, their fields, and where they attach."""
    if len(subsystem.vertices) > MAX_VERTICES:
        raise Unsupported(f"the cypher backend keeps up to {MAX_VERTICES} vertices for a subsystem")
    known_vertices(engine, cluster, {host for hosts in subsystem.hangs_on for host in hosts})
    spans = _spans(subsystem.parents)
    facts: list[dict[str, Any]] = []
    fields: dict[str, dict[str, Any]] = {}
    has: list[dict[str, Any]] = []
    hangs: list[dict[str, Any]] = []
    for i, (vertex, parent, hosts) in enumerate(subsystem.items()):
        key = f"{cluster}/{subsystem.name}\n{vertex.id}"
        row = _vertex_row(cluster, vertex, i, parent, spans[i])
        facts.append({"key": key, "subsystem": subsystem.name, **row})
        values = [field_row(name, value) for name, values in fields_of(vertex).items() for value in values]
        own = {value["key"]: value for value in values}
        fields |= own
        has += [{"a": key, "b": field} for field in own]
        hangs += [{"a": key_of(cluster, host), "b": key, "place": place} for place, host in enumerate(hosts)]
    _in_batches(engine, queries.ADD_FACTS, facts)
    _in_batches(engine, queries.ADD_FIELDS, fields.values())
    _in_batches(engine, queries.ADD_HAS, has)
    _in_batches(engine, queries.ADD_HANGS, hangs)


def _vertex_row(cluster: str, vertex: Vertex, position: int, parent: int, span: tuple[int, int]) -> dict[str, Any]:
    """Return the columns that the vertices of graphs and subsystems share."""
    return {
        "cluster": cluster,
        "id": vertex.id,
        "pos": position,
        "parent": parent,
        "lo": span[0],
        "hi": span[1],
        "name": vertex.name,
        "type": vertex.type,
        "size": vertex.size,
        "unit": vertex.unit,
        "metadata": json.dumps(vertex.metadata, default=dict) if vertex.metadata else "",
    }


def write_marks(engine: CypherEngine, cluster: str, marks: Mapping[str, Mark]) -> None:
    known_vertices(engine, cluster, marks)
    rows = [{"key": key_of(cluster, id), "mark": "" if mark is Mark.UP else mark.value} for id, mark in marks.items()]
    _in_batches(engine, queries.MARK, rows)


def write_use(engine: CypherEngine, cluster: str, used: Mapping[str, int]) -> None:
    """Replace the report of used units; a vertex with children is used whole."""
    for id, units in used.items():
        if units < 0:
            raise Invalid(f"used units cannot be negative, as {units} is", where=f"vertex {id!r}")
    found = known_vertices(engine, cluster, used)
    engine.run(queries.UNUSE, cluster=cluster)
    leaves = [
        {"key": key_of(cluster, id), "units": min(used[id], size)}
        for id, (lo, hi, size) in found.items()
        if hi == lo + 1
    ]
    _in_batches(engine, queries.USE_UNITS, leaves)
    for id, (lo, hi, _) in found.items():
        if hi > lo + 1 and used[id]:
            engine.run(queries.USE_WHOLE, cluster=cluster, lo=lo, hi=hi)


def write_job(engine: CypherEngine, cluster: str, job: str, ids: Mapping[str, int]) -> None:
    """Store the units that a placed job takes, by vertex id."""
    key = key_of(cluster, job)
    engine.run(queries.ADD_JOB, key=key, cluster=cluster, job=job)
    rows = [{"a": key, "b": key_of(cluster, id), "units": units} for id, units in ids.items()]
    _in_batches(engine, queries.ADD_TAKES, rows)


def known_vertices(engine: CypherEngine, cluster: str, ids: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Return for each id its depth-first position, its end and its size; raise `NotFound`."""
    wanted = list(ids)
    found: dict[str, tuple[int, int, int]] = {}
    for at in range(0, len(wanted), _BATCH):
        keys = [key_of(cluster, id) for id in wanted[at : at + _BATCH]]
        found.update((id, (lo, hi, size)) for id, lo, hi, size in engine.run(queries.KNOWN, keys=keys))
    for id in wanted:
        if id not in found:
            raise NotFound(f"cluster {cluster!r} has no vertex {id!r}")
    return found


def _in_batches(engine: CypherEngine, query: str, rows: Iterable[dict[str, Any]]) -> None:
    waiting = iter(rows)
    while batch := list(itertools.islice(waiting, _BATCH)):
        engine.run(query, rows=batch)


def _spans(parents: Sequence[int]) -> list[tuple[int, int]]:
    """Return each vertex's position in a depth-first walk, and the position after everything inside."""
    sizes = [1] * len(parents)
    for i in range(len(parents) - 1, -1, -1):
        if parents[i] >= 0:
            sizes[parents[i]] += sizes[i]
    next_free = [0] * len(parents)
    spans: list[tuple[int, int]] = []
    top = 0
    for i, parent in enumerate(parents):
        lo = top if parent < 0 else next_free[parent]
        if parent < 0:
            top += sizes[i]
        else:
            next_free[parent] += sizes[i]
        next_free[i] = lo + 1
        spans.append((lo, lo + sizes[i]))
    return spans


def _types_around(graph: Graph) -> tuple[list[str], list[str]]:
    """Return for each vertex the types below and above it, as texts; equal texts are one object."""
    below: list[frozenset[str]] = [frozenset()] * len(graph)
    for i in range(len(graph) - 1, 0, -1):
        parent = graph.parents[i]
        more = below[i] | {graph.types[i]}
        if not more <= below[parent]:
            below[parent] |= more
    above: list[frozenset[str]] = [frozenset()] * len(graph)
    for i in range(1, len(graph)):
        parent = graph.parents[i]
        above[i] = above[parent] | {graph.types[parent]}
    written: dict[frozenset[str], str] = {types: listed(sorted(types)) for types in {*below, *above}}
    return [written[types] for types in below], [written[types] for types in above]


def field_row(name: str, value: Scalar) -> dict[str, Any]:
    """Return one value of a field: its texts for equality, its number and its version key for ranges."""
    number = float(value) if is_number(value) else 0.0
    if abs(number) >= EXACT:
        raise Unsupported(f"the cypher backend compares numbers below 2^53 exactly, and {name} is {value}")
    written = texts(value)
    return {
        "key": f"{name}\n{type(value).__name__}\n{value!r}",
        "name": name,
        "one": written[0],
        "two": written[-1],
        "numeric": is_number(value),
        "plain": isinstance(value, str),
        "number": number,
        "version": sort_key(written[0]) if is_version(value) else "",
    }


def sort_key(text: str) -> str:
    """Return an ASCII text that sorts bytewise like `version_key`."""
    parts = []
    for rank, number, word in version_key(text):
        digits = str(number)
        parts.append(f"{rank}{len(digits):03}{digits}{_ascii(word)} ")  # the blank ends a word and sorts before letters
    return "".join(parts)


def _ascii(word: str) -> str:
    """Write letters beyond ASCII as `~` and six digits: after all others, in order of their code points."""
    return word if word.isascii() else "".join(c if c.isascii() else f"~{ord(c):06x}" for c in word)
