"""Read the compact form of graphs and subsystems: a cluster of 10,000 nodes in a few hundred bytes of JSON.

    {"rainbow": "graph/1", "cluster": "perl",
     "with": [{"type": "node", "count": 64, "name": "n[0-63]",
               "with": [{"type": "core", "count": 64}, {"type": "memory", "size": 256, "unit": "GB"}]}]}

The vertices of a subsystem attach to a list of names, and to each other:

    {"rainbow": "subsystem/1",
     "with": [{"type": "package", "on": "n[0-31]", "metadata": {"name": "lammps", "version": "2024.1"}}]}

`docs/graphs.md` describes every key.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.graphs.formats.jgf.values import (
    DEFAULT,
    STRUCTURAL,
    GraphLimits,
    build_subsystem,
    check_value,
    checked_size,
    refuse_duplicate,
)
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH, Graph, Subsystem, Vertex
from rainbow_sched.model.hostlist import expand

GRAPH_FORM = "graph/1"
SUBSYSTEM_FORM = "subsystem/1"
_GRAPH_KEYS = frozenset(("type", "count", "name", "id", "size", "unit", "metadata", "properties", "with"))
_SUBSYSTEM_KEYS = _GRAPH_KEYS - {"count"} | {"on"}
_SEVERAL = -1
_NOWHERE = "\0"  # parent of vertices with `"on": []`, which attach to nothing


def from_compact(document: Mapping[str, object], limits: GraphLimits = DEFAULT) -> Graph:
    """Expand a compact document; raise `Invalid` or `TooLarge` with the path of the entry."""
    if document.get("rainbow") != GRAPH_FORM:
        raise Invalid(f'a compact graph says "rainbow": "{GRAPH_FORM}", not {document.get("rainbow")!r}')
    root = {key: value for key, value in document.items() if key not in ("rainbow", "cluster")}
    if root.get("count", 1) != 1:
        raise Invalid("a graph has one root: leave out its count", where="cluster")
    if "name" in root:
        raise Invalid('the name of the root is "cluster"', where="cluster")
    name = document.get("cluster", "")
    if not isinstance(name, str):
        raise Invalid("the name of a cluster is a text", where="cluster")
    return build_graph({"type": "cluster", **root, "name": [name]}, "cluster", limits)


def from_compact_subsystem(
    name: str, graph: Graph, document: Mapping[str, object], limits: GraphLimits = DEFAULT
) -> Subsystem:
    """Build the subsystem; `on` lists ids or names of `graph`; a top vertex without it attaches to the root."""
    where = f"subsystem {name!r}"
    if document.get("rainbow") != SUBSYSTEM_FORM:
        raise Invalid(f'a compact subsystem says "rainbow": "{SUBSYSTEM_FORM}", not {document.get("rainbow")!r}')
    _refuse_unknown(document, frozenset(("rainbow", "name", "with")), where)
    builder = _SubsystemBuilder(name, graph, limits)
    builder.add(document, where, parent="", depth=0)
    return build_subsystem(name, builder.positions, builder.vertices, builder.edges, nowhere=_NOWHERE)


def build_graph(raw: Mapping[str, object], where: str, limits: GraphLimits) -> Graph:
    """Build the graph of an entry with one vertex, the root; `where` is its path, for errors."""
    columns = _GraphColumns()
    front = columns.add([(_ItemReader(limits).read(raw, where), -1, 0)])
    while front:
        below = [(child, above, number) for item, above, first in front for child, number in _numbered(item, first)]
        front = columns.add(below)
    return columns.graph()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Item:
    """`count` equal vertices in each parent, with equal contents."""

    type: str
    where: str
    count: int = 1
    size: int = 1
    unit: str = ""
    metadata: Mapping[str, object]
    names: tuple[str, ...] | None = None  # None: type and number
    ids: tuple[str, ...] | None = None  # None: numbered depth first
    inside: tuple[_Item, ...] = ()
    total: int = 1  # vertices in one copy: itself and all inside


class _ItemReader:
    """Read and check entries; a graph has at most two names and ids per vertex."""

    def __init__(self, limits: GraphLimits) -> None:
        self._max_vertices = limits.vertices
        self._names_left = 2 * limits.vertices

    def read(self, raw: object, where: str, depth: int = 0) -> _Item:
        """Read one entry and everything inside."""
        if depth >= MAX_GRAPH_DEPTH:
            raise TooLarge(f"a graph is at most {MAX_GRAPH_DEPTH} levels deep", where=where)
        if not isinstance(raw, Mapping):
            raise Invalid('an entry is an object {"type", "count", "with"}', where=where)
        _refuse_unknown(raw, _GRAPH_KEYS, where)
        type = _text_of(raw, "type", where)
        if not type:
            raise Invalid("a vertex needs a type", where=where)
        where = f"{where} ({type})"
        count = raw.get("count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= self._max_vertices:
            raise Invalid(f"count is a whole number from 1 to {self._max_vertices}, not {str(count)[:40]}", where=where)
        entries = raw.get("with", [])
        if not isinstance(entries, list):
            raise Invalid("with is a list of entries", where=where)
        inside = tuple(self.read(entry, f"{where}.with[{i}]", depth + 1) for i, entry in enumerate(entries))
        total = 1 + sum(item.count * item.total for item in inside)
        if count * total > self._max_vertices:
            raise TooLarge(f"a graph has at most {self._max_vertices} vertices", where=where)
        return _Item(
            type=type,
            where=where,
            count=count,
            size=checked_size(raw.get("size"), where),
            unit=_text_of(raw, "unit", where),
            metadata=_metadata_of(raw, where),
            names=self._listed(raw, "name", where),
            ids=self._listed(raw, "id", where),
            inside=inside,
            total=total,
        )

    def _listed(self, raw: Mapping[str, object], key: str, where: str) -> tuple[str, ...] | None:
        """Return the names under `key`, or None if it is absent."""
        value = raw.get(key)
        if value is None:
            return None
        if value == "":
            return ("",)
        check_value(value, where)
        if isinstance(value, str):
            found = tuple(expand(value, limit=self._names_left, where=where))
        elif isinstance(value, list) and value and all(isinstance(name, str) for name in value):
            found = tuple(value)
        else:
            raise Invalid(f'{key} is a text such as "n[0-63]" or a list of texts', where=where)
        self._names_left -= len(found)
        return found


def _numbered(item: _Item, first: int) -> Iterator[tuple[_Item, int]]:
    """Iterate over the entries inside one vertex with the depth-first number of the first vertex of each."""
    number = first + 1
    for child in item.inside:
        yield child, number
        number += child.count * child.total


class _GraphColumns:
    """Fill the columns of a graph level by level."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.names: list[str] = []
        self.types: list[str] = []
        self.units: list[str] = []
        self.parents = array("i")
        self.sizes = array("q")
        self.metadata: dict[int, Mapping[str, object]] = {}
        self._made: Counter[_Item] = Counter()  # vertices made so far
        self._nodes = 0  # nodes made so far: their names count through the whole cluster

    def add(self, entries: Sequence[tuple[_Item, int, int]]) -> list[tuple[_Item, int, int]]:
        """Add `count` vertices for each (entry, parent, number) and return those with children."""
        expected: Counter[_Item] = Counter()
        for item, _, _ in entries:
            expected[item] += item.count
        for item, total in expected.items():
            _check_lengths(item, total)
        deeper: list[tuple[_Item, int, int]] = []
        for item, parent, number in entries:
            first = len(self.ids)
            numbers = range(number, number + item.count * item.total, item.total)
            self._append(item, parent, numbers)
            if item.inside:
                deeper += [(item, first + k, numbers[k]) for k in range(item.count)]
        return deeper

    def _append(self, item: _Item, parent: int, numbers: range) -> None:
        count, done = item.count, self._made[item]
        self._made[item] += count
        first = len(self.ids)
        self.ids += _slice(item.ids, done, count) if item.ids else map(str, numbers)
        start = self._nodes if item.type == "node" else 0
        if item.names:
            self.names += _slice(item.names, done, count)
        else:
            self.names += [f"{item.type}{number}" for number in range(start, start + count)]
        if item.type == "node":
            self._nodes += count
        self.types += [item.type] * count
        self.units += [item.unit] * count
        self.parents.extend([parent] * count)
        self.sizes.extend([item.size] * count)
        if item.metadata:
            self.metadata.update(dict.fromkeys(range(first, first + count), item.metadata))

    def graph(self) -> Graph:
        refuse_duplicate(self.ids)
        return Graph(
            ids=self.ids,
            names=self.names,
            types=self.types,
            parents=self.parents,
            sizes=self.sizes,
            units=self.units,
            metadata=self.metadata,
        )


def _slice(listed: tuple[str, ...], done: int, count: int) -> Sequence[str]:
    """Return the names of the next `count` vertices; a shorter list repeats."""
    start = done % len(listed)
    if start + count <= len(listed):
        return listed[start : start + count]
    return list(itertools.islice(itertools.cycle(listed), start, start + count))


def _check_lengths(item: _Item, total: int) -> None:
    for key, listed in (("name", item.names), ("id", item.ids)):
        if listed is not None and total % len(listed):
            raise Invalid(f"{key} lists {len(listed)}, which does not divide {total} vertices", where=item.where)
    if item.ids and not all(item.ids):
        raise Invalid("an id must not be empty", where=item.where)


class _SubsystemBuilder:
    """Collect vertices and edges from the top; missing ids are numbered."""

    def __init__(self, name: str, graph: Graph, limits: GraphLimits) -> None:
        self.vertices: list[Vertex] = []
        self.edges: list[tuple[str, str]] = []
        self.positions = graph.positions()
        self._name = name
        self._ids = graph.ids
        self._limits = limits
        self._by_name: dict[str, int] = {}
        for i, label in enumerate(graph.names):
            self._by_name[label] = _SEVERAL if label in self._by_name else i

    def add(self, holder: Mapping[str, object], where: str, *, parent: str, depth: int) -> None:
        entries = holder.get("with", [])
        if not isinstance(entries, list):
            raise Invalid("with is a list of entries", where=where)
        if entries and depth >= MAX_GRAPH_DEPTH:
            raise TooLarge(f"a subsystem is at most {MAX_GRAPH_DEPTH} levels deep", where=where)
        for i, raw in enumerate(entries):
            self._add_one(raw, f"{where}.with[{i}]", parent, depth)

    def _add_one(self, raw: object, where: str, parent: str, depth: int) -> None:
        if not isinstance(raw, dict):
            raise Invalid('an entry is an object {"type", "on", "metadata", "with"}', where=where)
        _refuse_unknown(raw, _SUBSYSTEM_KEYS, where)
        id = _text_of(raw, "id", where) or f"{self._name}{len(self.vertices) + 1}"
        where = f"{where} ({id})"
        self.vertices.append(
            Vertex(
                id=id,
                type=_text_of(raw, "type", where) or "resource",
                name=_text_of(raw, "name", where),
                size=checked_size(raw.get("size"), where),
                unit=_text_of(raw, "unit", where),
                metadata=_metadata_of(raw, where),
            )
        )
        above = [parent] if parent else []
        if "on" in raw or not parent:
            above += self._attached_to(raw.get("on", [self._ids[0]]), where)
        self.edges += [(source, id) for source in above or [_NOWHERE]]
        if len(self.vertices) > self._limits.vertices or len(self.edges) > self._limits.edges:
            raise TooLarge(f"a subsystem has at most {self._limits.vertices} vertices", where=where)
        self.add(raw, where, parent=id, depth=depth + 1)

    def _attached_to(self, on: object, where: str) -> list[str]:
        """Return the ids of the vertices that `on` lists."""
        if isinstance(on, str):
            wanted = expand(on, limit=self._limits.vertices, where=where)
        elif isinstance(on, list) and all(isinstance(name, str) for name in on):
            wanted = list(on)
        else:
            raise Invalid('on is a text such as "n[0-31]" or a list of texts', where=where)
        return [self._one(name, where) for name in wanted]

    def _one(self, name: str, where: str) -> str:
        """Return the id of the vertex with this id, else with this unique name."""
        if name in self.positions:
            return name
        at = self._by_name.get(name)
        if at is None:
            raise Invalid(f"hangs on {name!r}, which is not in the cluster's graph", where=where)
        if at == _SEVERAL:
            raise Invalid(f"hangs on {name!r}, a name that several vertices have; give their ids", where=where)
        return self._ids[at]


def _refuse_unknown(raw: Mapping[str, object], known: frozenset[str], where: str) -> None:
    for key in raw:
        if key not in known:
            raise Invalid(f"unknown key {key!r}; known are {', '.join(sorted(known))}", where=where)


def _text_of(raw: Mapping[str, object], key: str, where: str) -> str:
    """Return the text under `key`, or an empty text if it is absent."""
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise Invalid(f"{key} is a text, not {value!r}", where=where)
    check_value(value, where)
    return value


def _metadata_of(raw: Mapping[str, object], where: str) -> dict[str, object]:
    """Return the metadata, with `properties` as one of its keys."""
    given = raw.get("metadata", {})
    if not isinstance(given, dict):
        raise Invalid("metadata is an object", where=where)
    taken = STRUCTURAL.intersection(given)
    if taken:
        raise Invalid(f"{min(taken)} stands beside metadata, not inside it", where=where)
    metadata = dict(given)
    if "properties" in raw:
        metadata["properties"] = raw["properties"]
    check_value(metadata, where)
    return metadata
