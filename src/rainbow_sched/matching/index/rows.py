"""The rows of a cluster's hosts, and how hosts move between rows when their state changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rainbow_sched.matching.index.tables import ROOT, WHOLE, Dim, HostTable, Offer, RowKey
from rainbow_sched.matching.index.unit_counts import UnitCounts
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.shapes import Shape


class PendingChange:
    """The changes of one cluster that are not in the index yet."""

    __slots__ = ("taken", "toggled")

    def __init__(self) -> None:
        self.taken: dict[int, int] = {}  # units that were taken before, of vertices where that has changed
        self.toggled: set[int] = set()  # vertices that became unavailable or available

    def add(self, taken: Mapping[int, int], toggled: Collection[int] = ()) -> None:
        """Add a later change."""
        for i, before in taken.items():
            self.taken.setdefault(i, before)
        self.toggled.symmetric_difference_update(toggled)


@dataclass(frozen=True, slots=True)
class VertexState:
    """The state after a change: taken units by vertex, and all unavailable vertices."""

    taken: UnitCounts
    unavailable: Collection[int]


@dataclass(slots=True)
class _Delta:
    """The sum of the changes inside a vertex."""

    units: dict[Dim, int] = field(default_factory=dict)
    taken: int = 0
    unavailable: int = 0

    def add(self, other: _Delta) -> None:
        for dim, units in other.units.items():
            self.units[dim] = self.units.get(dim, 0) + units
        self.taken += other.taken
        self.unavailable += other.unavailable


class ClusterRows:
    """One cluster's hosts. Only changed hosts are stored; all others are in the rows of the free graph."""

    __slots__ = ("_all_free", "_cluster", "_fold", "_moved", "_number", "_tables", "_taken", "_unavailable")

    def __init__(self, cluster: int, fold: Fold, tables: dict[str, HostTable]) -> None:
        """`tables` hold how *now* differs from *ever*."""
        self._cluster = cluster
        self._fold = fold
        self._tables = tables
        self._number = fold.structure.host_numbers
        self._all_free: RowKey | None = None
        self._moved: list[RowKey | None] = [None] * (fold.structure.hosts + 1)  # by host; the last is the cluster
        self._taken = UnitCounts(fold.structure.hosts)  # by host: vertices at or inside it of which something is taken
        self._unavailable = UnitCounts(fold.structure.hosts)  # by host: unavailable vertices at or inside it

    def change(self, state: VertexState, changed: PendingChange) -> None:
        """Apply a change, from the leaves up."""
        graph = self._fold.graph
        if changed.toggled:
            pending = {i: _Delta() for i in (*changed.taken, *changed.toggled)}
        else:
            pending = self._leaves_together(state, changed)
        for i in tuple(pending):
            at = graph.parents[i]
            while at >= 0 and at not in pending:
                pending[at] = _Delta()
                at = graph.parents[at]
        for i in sorted(pending, reverse=True):  # children before parents
            delta = pending[i]
            self._own(i, delta, state, changed)
            if graph.parents[i] >= 0:
                pending[graph.parents[i]].add(delta)
            else:
                self._move(ROOT, -1, delta.units, not (self._taken or state.taken.get(i)))

    def _leaves_together(self, state: VertexState, changed: PendingChange) -> dict[int, _Delta]:
        """Sum up the changed leaves of each vertex. Only for changes without toggled vertices, the common case."""
        graph, number, unavailable = self._fold.graph, self._number, state.unavailable
        parents, sizes, types, units, taken = graph.parents, graph.sizes, graph.types, graph.units, state.taken.column()
        deltas: dict[int, _Delta] = {}
        for i, before in changed.taken.items():
            now = taken[i]
            if now == before:
                continue
            parent = parents[i]
            if parent < 0 or number[i] >= 0:
                deltas.setdefault(i, _Delta())
                continue
            delta = deltas.get(parent)
            if delta is None:
                delta = deltas[parent] = _Delta()
            if not before:
                delta.taken += 1
            elif not now:
                delta.taken -= 1
            size = sizes[i]
            free = (before if before < size else size) - (now if now < size else size)
            if free and i not in unavailable:
                dim = (types[i], units[i])
                delta.units[dim] = delta.units.get(dim, 0) + free
        return deltas

    def _own(self, i: int, delta: _Delta, state: VertexState, changed: PendingChange) -> None:
        """Add a vertex's own change to the changes inside, and move the vertex if it is a host."""
        graph = self._fold.graph
        type, number = graph.types[i], self._number[i]
        free = self._itself(i, delta, state, changed) if changed.toggled or i in changed.taken else 0
        dim = (type, graph.units[i])
        if number >= 0:
            taken = taken_before = self._taken.get(number)
            unavailable = unavailable_before = self._unavailable.get(number)
            if delta.taken:
                taken = self._taken.add(number, delta.taken)
            if delta.unavailable:
                unavailable = self._unavailable.add(number, delta.unavailable)
            self._move(type, i, delta.units, not taken)
            free = graph.sizes[i] * ((not (taken or unavailable)) - (not (taken_before or unavailable_before)))
            dim = (type, WHOLE)
        if free:
            delta.units[dim] = delta.units.get(dim, 0) + free

    def _itself(self, i: int, delta: _Delta, state: VertexState, changed: PendingChange) -> int:
        """Count a vertex that was taken, released or toggled; return the change of its free units."""
        size = self._fold.graph.sizes[i]
        units_now = min(state.taken.get(i, 0), size)
        units_before = min(changed.taken[i], size) if i in changed.taken else units_now
        is_unavailable = i in state.unavailable
        was_unavailable = is_unavailable is not (i in changed.toggled)
        delta.taken += bool(units_now) - bool(units_before)
        delta.unavailable += is_unavailable - was_unavailable
        return (0 if is_unavailable else size - units_now) - (0 if was_unavailable else size - units_before)

    def _free(self, i: int) -> RowKey:
        """Return the row of a host, or of the cluster (-1), when everything is free."""
        if i >= 0:
            shape = self._fold.shape(i)
            return (self._cluster, shape.cls, True, offer(shape))
        if self._all_free is None:
            self._all_free = (self._cluster, self._fold.root.cls, True, around(self._fold.root))
        return self._all_free

    def _move(self, type: str, i: int, delta: Mapping[Dim, int], clean: bool) -> None:
        """Move a host to its row after a change inside."""
        number = -1 if i < 0 else self._number[i]
        before = self._moved[number] or self._free(i)
        if not delta and clean is before[2]:
            return
        values = dict(before[3])
        for dim, units in delta.items():
            values[dim] = values.get(dim, 0) + units
        after = (before[0], before[1], clean, tuple(sorted([item for item in values.items() if item[1]])))
        table = self._tables.get(type)
        if table is None:
            table = self._tables[type] = HostTable()
        table.add(before, -1)
        kept = table.add(after, 1)
        self._moved[number] = None if clean and after == self._free(i) else kept


def hosts_touched(fold: Fold, taken: Collection[int]) -> int:
    """Return the maximum number of hosts of one type that contain the taken vertices."""
    return len(set(map(fold.graph.parents.__getitem__, taken)))


def offer(shape: Shape) -> Offer:
    """Return the free units inside a free host of this shape: leaves and whole vertices."""
    if shape.offer is None:
        totals: dict[Dim, int] = {}
        for kid, count in shape.kids:
            for dim, units in around(kid):
                totals[dim] = totals.get(dim, 0) + units * count
        shape.offer = tuple(sorted(totals.items()))
    return shape.offer


def around(shape: Shape) -> Offer:
    """Return the free units of a vertex of this shape and everything inside."""
    if not shape.kids:
        return (((shape.type, shape.unit), shape.size),)
    totals = dict(offer(shape))
    own = (shape.type, WHOLE)
    totals[own] = totals.get(own, 0) + shape.size
    return tuple(sorted(totals.items()))
