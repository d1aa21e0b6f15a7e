"""In which rows a cluster's hosts stand, and how they move when vertices are taken, freed, or go dark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rainbow_sched.matching.index.tables import ROOT, WHOLE, Dim, HostTable, Offer, RowKey
from rainbow_sched.matching.index.unit_counts import Units
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.shapes import Shape


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of state did: units taken before, where that changed, and who went dark or came back."""

    taken: Mapping[int, int] = field(default_factory=dict)
    flipped: Collection[int] = ()


class Gathered:
    """Several changes of one cluster in one: what was taken before the first, and who is now dark or light at last."""

    __slots__ = ("flipped", "taken")

    def __init__(self) -> None:
        self.taken: dict[int, int] = {}
        self.flipped: set[int] = set()

    def add(self, changed: Changed) -> None:
        """One more change, after the others."""
        for i, before in changed.taken.items():
            self.taken.setdefault(i, before)
        self.flipped.symmetric_difference_update(changed.flipped)

    def whole(self) -> Changed:
        """All of them."""
        return Changed(self.taken, self.flipped)


@dataclass(frozen=True, slots=True)
class Held:
    """The state after the change: taken units by vertex, and all dark vertices."""

    taken: Units
    dark: Collection[int]


@dataclass(slots=True)
class _Delta:
    """What a change inside a vertex adds up to."""

    units: dict[Dim, int] = field(default_factory=dict)
    taken: int = 0
    dark: int = 0

    def add(self, other: _Delta) -> None:
        for dim, units in other.units.items():
            self.units[dim] = self.units.get(dim, 0) + units
        self.taken += other.taken
        self.dark += other.dark


class Rows:
    """One cluster's hosts. Only changed ones are kept; all others stand where the free graph puts them."""

    __slots__ = ("_all_free", "_cluster", "_dark", "_fold", "_moved", "_number", "_tables", "_taken")

    def __init__(self, cluster: int, fold: Fold, tables: dict[str, HostTable]) -> None:
        """`tables` hold how *now* differs from *ever*."""
        self._cluster = cluster
        self._fold = fold
        self._tables = tables
        self._number = fold.structure.host_numbers
        self._all_free: RowKey | None = None
        self._moved: list[RowKey | None] = [None] * (fold.structure.hosts + 1)  # by host; the last is the cluster
        self._taken = Units(fold.structure.hosts)  # by host: vertices at or inside it of which something is taken
        self._dark = Units(fold.structure.hosts)  # by host: dark vertices at or inside it

    def change(self, state: Held, changed: Changed) -> None:
        """Take a change over, from the leaves up."""
        graph = self._fold.graph
        if changed.flipped:
            pending = {i: _Delta() for i in (*changed.taken, *changed.flipped)}
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

    def _leaves_together(self, state: Held, changed: Changed) -> dict[int, _Delta]:
        """What the leaves of each vertex add up to, when nothing went dark or came back: the common case."""
        graph, number, dark = self._fold.graph, self._number, state.dark
        parents, sizes, types, units, taken = graph.parents, graph.sizes, graph.types, graph.units, state.taken.column()
        found: dict[int, _Delta] = {}
        for i, before in changed.taken.items():
            now = taken[i]
            if now == before:
                continue
            parent = parents[i]
            if parent < 0 or number[i] >= 0:
                found.setdefault(i, _Delta())
                continue
            delta = found.get(parent)
            if delta is None:
                delta = found[parent] = _Delta()
            if not before:
                delta.taken += 1
            elif not now:
                delta.taken -= 1
            size = sizes[i]
            free = (before if before < size else size) - (now if now < size else size)
            if free and i not in dark:
                dim = (types[i], units[i])
                delta.units[dim] = delta.units.get(dim, 0) + free
        return found

    def _own(self, i: int, delta: _Delta, state: Held, changed: Changed) -> None:
        """Add a vertex's own part to what changed inside it, and move it if it is a host."""
        graph = self._fold.graph
        type, number = graph.types[i], self._number[i]
        free = self._itself(i, delta, state, changed) if changed.flipped or i in changed.taken else 0
        dim = (type, graph.units[i])
        if number >= 0:
            taken = taken_before = self._taken.get(number)
            dark = dark_before = self._dark.get(number)
            if delta.taken:
                taken = self._taken.add(number, delta.taken)
            if delta.dark:
                dark = self._dark.add(number, delta.dark)
            self._move(type, i, delta.units, not taken)
            free = graph.sizes[i] * ((not (taken or dark)) - (not (taken_before or dark_before)))
            dim = (type, WHOLE)
        if free:
            delta.units[dim] = delta.units.get(dim, 0) + free

    def _itself(self, i: int, delta: _Delta, state: Held, changed: Changed) -> int:
        """Count a vertex that was taken or given back, or went dark or came back; how much more of it is free."""
        size = self._fold.graph.sizes[i]
        units_now = min(state.taken.get(i, 0), size)
        units_before = min(changed.taken[i], size) if i in changed.taken else units_now
        is_dark = i in state.dark
        was_dark = is_dark is not (i in changed.flipped)
        delta.taken += bool(units_now) - bool(units_before)
        delta.dark += is_dark - was_dark
        return (0 if is_dark else size - units_now) - (0 if was_dark else size - units_before)

    def _free(self, i: int) -> RowKey:
        """The row of a host, or of the cluster (-1), when all is free."""
        if i >= 0:
            shape = self._fold.shape(i)
            return (self._cluster, shape.cls, True, offer(shape))
        if self._all_free is None:
            self._all_free = (self._cluster, self._fold.root.cls, True, around(self._fold.root))
        return self._all_free

    def _move(self, type: str, i: int, delta: Mapping[Dim, int], clean: bool) -> None:
        """Move a host to the row where it belongs after a change inside."""
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
    """Of any one kind of host, a job that takes these is in at most so many: what has things inside is taken whole."""
    return len(set(map(fold.graph.parents.__getitem__, taken)))


def offer(shape: Shape) -> Offer:
    """What a free host of this shape offers inside: units of leaves, and whole vertices."""
    if shape.offer is None:
        totals: dict[Dim, int] = {}
        for kid, count in shape.kids:
            for dim, units in around(kid):
                totals[dim] = totals.get(dim, 0) + units * count
        shape.offer = tuple(sorted(totals.items()))
    return shape.offer


def around(shape: Shape) -> Offer:
    """What a vertex of this shape offers to what is above it: its inside and itself."""
    if not shape.kids:
        return (((shape.type, shape.unit), shape.size),)
    totals = dict(offer(shape))
    own = (shape.type, WHOLE)
    totals[own] = totals.get(own, 0) + shape.size
    return tuple(sorted(totals.items()))
