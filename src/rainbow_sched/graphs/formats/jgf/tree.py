"""Build the tree of a graph from edges with all checks of `Graph.build`, fast enough for millions of vertices."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rainbow_sched.graphs.formats.jgf.values import refuse_duplicate
from rainbow_sched.graphs.formats.jgf.vertices import Columns
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH, Graph

Numbers: TypeAlias = npt.NDArray[np.int32]
_NONE = -1


class ContainmentTree:
    """Collect `contains` edges; each vertex has one parent."""

    __slots__ = ("_ids", "_parents", "_positions")

    def __init__(self, ids: Sequence[str]) -> None:
        """Number the vertices; raise `Invalid` for a duplicate id."""
        self._ids = ids
        self._positions = dict(zip(ids, range(len(ids)), strict=True))
        if len(self._positions) < len(ids):
            refuse_duplicate(ids)
        self._parents: Numbers = np.full(len(ids), _NONE, dtype=np.int32)

    def add(self, sources: list[str], targets: list[str]) -> None:
        """Add edges; raise `Invalid` for an unknown end, a vertex inside itself or a second parent."""
        at = self._positions.__getitem__
        try:
            parents: Numbers = np.fromiter(map(at, sources), np.int32, len(sources))
            children: Numbers = np.fromiter(map(at, targets), np.int32, len(targets))
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

    def _top_down(self) -> Numbers:
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

    def _refuse_roots(self, roots: Numbers) -> None:
        if not roots.size:
            raise Invalid(
                "every vertex is inside another: the graph has a cycle and no root", where=f"vertex {self._ids[0]!r}"
            )
        raise Invalid(
            f"there are {roots.size} vertices without a parent; one root is needed "
            f"({self._ids[roots[0]]!r} was found first)",
            where=f"vertex {self._ids[roots[1]]!r}",
        )
