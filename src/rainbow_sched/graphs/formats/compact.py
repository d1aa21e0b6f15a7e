"""Read the compact form of graphs: a cluster of 10,000 nodes in a few hundred bytes of JSON.

    {"rainbow": "graph/1", "cluster": "perl",
     "with": [{"type": "node", "count": 64, "name": "n[0-63]",
               "with": [{"type": "core", "count": 64}, {"type": "memory", "size": 256, "unit": "GB"}]}]}

`docs/graphs.md` describes every key. `compact_subsystem.py` holds the form for subsystems.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence

from rainbow_sched.graphs.formats.compact_items import Item, read_item
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, refuse_duplicate
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import Graph

GRAPH_FORM = "graph/1"


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
    return expand_item(read_item({"type": "cluster", **root, "name": [name]}, "cluster", limits))


def expand_item(root: Item) -> Graph:
    """Build the graph of an entry with one vertex, the root."""
    columns = _GraphColumns()
    front: list[tuple[Item, int, int]] = columns.add([(root, -1, 0)])
    while front:
        below = [(child, above, number) for item, above, first in front for child, number in _numbered(item, first)]
        front = columns.add(below)
    return columns.graph()


def _numbered(item: Item, first: int) -> list[tuple[Item, int]]:
    """Return the entries inside one vertex with the depth-first number of the first vertex of each."""
    found, at = [], first + 1
    for child in item.inside:
        found.append((child, at))
        at += child.count * child.total
    return found


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
        self._seen: dict[int, int] = {}  # vertices made so far, by entry
        self._nodes = 0  # nodes made so far: their names count through the whole cluster

    def add(self, entries: Sequence[tuple[Item, int, int]]) -> list[tuple[Item, int, int]]:
        """Add `count` vertices for each (entry, parent, number) and return those with children."""
        expected: dict[int, tuple[Item, int]] = {}
        for item, _, _ in entries:
            expected[id(item)] = (item, expected.get(id(item), (item, 0))[1] + item.count)
        for item, total in expected.values():
            _check_lengths(item, total)
        deeper: list[tuple[Item, int, int]] = []
        for item, parent, number in entries:
            first = len(self.ids)
            numbers = range(number, number + item.count * item.total, item.total)
            self._append(item, parent, numbers)
            if item.inside:
                deeper += [(item, first + k, numbers[k]) for k in range(item.count)]
        return deeper

    def _append(self, item: Item, parent: int, numbers: range) -> None:
        count, done = item.count, self._seen.get(id(item), 0)
        self._seen[id(item)] = done + count
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
        if len(set(self.ids)) < len(self.ids):
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


def _check_lengths(item: Item, total: int) -> None:
    for key, listed in (("name", item.names), ("id", item.ids)):
        if listed is not None and total % len(listed):
            raise Invalid(f"{key} lists {len(listed)}, which does not divide {total} vertices", where=item.where)
    if item.ids and not all(item.ids):
        raise Invalid("an id must not be empty", where=item.where)
