"""Suffix counts: the number of hosts with at least c units of one dimension and g of another, for every c and g.

When every node has a different number of free cores, a table has as many rows as nodes. Grouped
by everything else (cluster, class, memory ...), with the two dimensions that
vary most as levels, the same hosts form a few groups, and a query reads one slice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from rainbow_sched.matching.index.request_form import Need, RequestForm
from rainbow_sched.matching.index.tables import (
    LARGEST,
    WHOLE,
    Dim,
    Floats,
    HostTable,
    Mask,
    Offer,
    RowKey,
    scale_of,
    slots_of_rows,
    units_of,
)

MIN_ROWS = 6_000  # rows from which on suffix counts are faster than reading all rows
MAX_LEVELS = 8_192  # of both dimensions, multiplied; bounds the size of the table
MAX_GROUPS = 12_000  # bounds the size of the table
MAX_CELLS = 1 << 25  # of four bytes; bounds the memory of the table
MAX_SLOTS = 256  # slots in one host that are summed slice by slice; beyond that all rows are read


class SuffixTable:
    """Suffix counts over one `HostTable`, updated with it."""

    def __init__(self, table: HostTable, dims: tuple[Dim, Dim]) -> None:
        self.dims = dims
        self.groups = HostTable()  # one row per group; its own count is not used
        self.levels = tuple(table.peaks.get(dim, 0) + 1 for dim in dims)
        self._group: dict[RowKey, int] = {}
        self.broken = False
        rows = np.flatnonzero(table.count[: table.size])
        examples, group = _grouped(table, rows, dims)
        depth = 16 + len(examples) * 5 // 4
        if depth * self.levels[0] * self.levels[1] > MAX_CELLS:
            self.broken = True
            return
        self.counts: npt.NDArray[np.int32] = np.zeros((*self.levels, depth), np.int32)
        for row in rows[examples].tolist():
            self._place(table.keys[row])
            if self.broken:
                return
        zeros = np.zeros(table.size, np.int64)
        first, second = (table.columns.get(dim, zeros)[rows] for dim in dims)
        np.add.at(self.counts, (first, second, group), table.count[rows].astype(np.int32))
        # Plain counts become suffix counts: from the highest level down, along both axes.
        for level in range(self.levels[0] - 2, -1, -1):
            self.counts[level] += self.counts[level + 1]
        for level in range(self.levels[1] - 2, -1, -1):
            self.counts[:, level] += self.counts[:, level + 1]

    def _split(self, offer: Offer) -> tuple[int, int, Offer]:
        first = second = 0
        rest = []
        for item in offer:
            if item[0] == self.dims[0]:
                first = item[1]
            elif item[0] == self.dims[1]:
                second = item[1]
            else:
                rest.append(item)
        return first, second, tuple(rest)

    def _place(self, key: RowKey) -> tuple[int, int, int] | None:
        first, second, rest = self._split(key[3])
        if first >= self.levels[0] or second >= self.levels[1]:
            self.broken = True
            return None
        group_key = (key[0], key[1], True, rest)  # `clean` is ignored here
        group = self._group.get(group_key)
        if group is None:
            group = self._group[group_key] = len(self._group)
            self.groups.add(group_key, 1)
            if group >= MAX_GROUPS:
                self.broken = True
                return None
            if group >= self.counts.shape[2]:
                self.counts = np.pad(self.counts, ((0, 0), (0, 0), (0, self.counts.shape[2])))
        return first, second, group

    def add(self, key: RowKey, hosts: int) -> None:
        """Apply a change of the table."""
        at = None if self.broken else self._place(key)
        if at is not None:
            self.counts[: at[0] + 1, : at[1] + 1, at[2]] += hosts

    def slots(self, form: RequestForm, classes: Mask | None, clusters: int) -> Floats | None:
        """Return the slots by cluster number, or None if these counts are not sufficient."""
        if form.exclusive:
            return None
        wanted = [0, 0]
        others: list[Need] = []
        for need in form.needs:
            place = [number for number, dim in enumerate(self.dims) if scale_of(dim, need)]
            if place and not need.scale and self._alone(need):
                wanted[place[0]] = need.count
            elif place:
                return None
            else:
                others.append(need)
        times = self._times(form, wanted)
        if times is None:
            return None
        slots = self._added_up(wanted, others, times)
        return slots_of_rows(self.groups, slots, form, classes, clusters)

    def _added_up(self, wanted: list[int], others: list[Need], times: int) -> npt.NDArray[Any]:
        """Return by group the hosts with room for one slot, plus the hosts with room for two, and so on."""
        width = len(self._group)
        most = [(self.levels[i] - 1) // want for i, want in enumerate(wanted) if want]
        most += [LARGEST // (need.count * (need.scale or 1)) for need in others]
        slots = np.arange(1, min(times, *most) + 1 if most else times + 1)
        if not len(slots):
            return np.zeros(width)
        if wanted[1]:
            counts: npt.NDArray[Any] = self.counts[slots * wanted[0], slots * wanted[1], :width]
        else:  # a view: one level in so many, without copying
            counts = self.counts[wanted[0] :: wanted[0] or self.levels[0], 0, :width][: len(slots)]
        most_of = None  # by group: the slots that all else in a host is enough for
        for need in others:
            units = units_of(self.groups, need)
            if units is None:
                return np.zeros(width)
            enough = units // (need.count * (need.scale or 1))
            most_of = enough if most_of is None else np.minimum(most_of, enough)
        return _added(counts) if most_of is None else _added_up_to(counts, most_of)

    def _alone(self, need: Need) -> bool:
        """Return True if only one column counts for the need."""
        return sum(bool(scale_of(dim, need)) for dim in (*self.dims, *self.groups.columns)) == 1

    def _times(self, form: RequestForm, wanted: list[int]) -> int | None:
        """Return how many slots of one host have to be summed up; None if too many or unbounded."""
        if not form.shared or form.count == 1:
            return 1
        most = min(((self.levels[i] - 1) // wanted[i] for i in (0, 1) if wanted[i]), default=MAX_SLOTS + 1)
        return most if most <= MAX_SLOTS else None


def _grouped(table: HostTable, rows: npt.NDArray[np.intp], dims: tuple[Dim, Dim]) -> tuple[Any, Any]:
    """Return one row of each group of rows that differ only in the two dims, and the group of each row."""
    group: npt.NDArray[Any] = np.zeros(len(rows), np.int64)
    examples: npt.NDArray[Any] = np.zeros(min(1, len(rows)), np.intp)
    for column in (table.cluster, table.cls, *(column for dim, column in table.columns.items() if dim not in dims)):
        different, codes = np.unique(column[rows], return_inverse=True)
        if len(different) > 1:
            joined = group * len(different) + codes
            _, examples, group = np.unique(joined, return_index=True, return_inverse=True)
    return examples, group


def _added(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    added: npt.NDArray[Any] = np.add.reduce(counts, axis=0, dtype=np.int32)  # a tenth of the time of wider sums
    return added


def _added_up_to(counts: npt.NDArray[Any], most: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return by group the sum of its first `most` counts; with few different limits this takes few array sums."""
    limits = np.minimum(most, len(counts))
    total = np.zeros(len(limits), np.int32)
    running: npt.NDArray[Any] | None = None
    done = 0
    for limit in np.flatnonzero(np.bincount(limits)).tolist():
        if limit:
            more = _added(counts[done:limit])
            running, done = more if running is None else running + more, limit
            np.copyto(total, running, where=limits == limit)
    return total


def suffix_of(table: HostTable) -> SuffixTable | None:
    """Return the table's suffix counts, built when they are faster; None if they are not or cannot be built."""
    if table.suffix is not None and table.suffix.broken:
        table.suffix = None
        table.suffix_at = 2 * len(table)  # try again when the table has doubled
    if table.suffix is None and len(table) >= max(MIN_ROWS, table.suffix_at):
        dims = _dims(table.peaks.items())
        if dims is None:
            return None
        table.suffix = SuffixTable(table, dims)
        if table.suffix.broken:
            return suffix_of(table)
    return table.suffix


def _dims(peaks: Iterable[tuple[Dim, int]]) -> tuple[Dim, Dim] | None:
    """Return the two dimensions with the most levels that keep the table within its bound."""
    small = sorted((-peak, dim) for dim, peak in peaks if not dim[1] and dim[1] != WHOLE and peak < MAX_LEVELS)
    for place, (first, dim) in enumerate(small):
        for second, other in small[place + 1 :]:
            if (1 - first) * (1 - second) <= MAX_LEVELS:
                return dim, other
    return (small[-1][1], ("", "")) if small else None
