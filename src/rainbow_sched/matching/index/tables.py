"""The tables of the index: per type of host, the number of equal hosts of each cluster.

A row is (cluster, class of facts, clean, free units per type of leaf) with the number of
equal hosts. A thousand equal idle nodes of a cluster are one row. There are two tables per
type of host: the hosts when everything is free (*ever*), and the difference to *now*, in which a
count is negative for hosts that have left a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rainbow_sched.matching.index.suffix_counts import SuffixTable

Dim: TypeAlias = tuple[str, str]  # the leaf's type and its unit; unit WHOLE: vertices with things inside, taken whole
WHOLE = "*"
MOST_ITEMS = 16_384
ROOT = ""  # the name of the table in which each cluster is one host
Offer: TypeAlias = tuple[tuple[Dim, int], ...]
RowKey: TypeAlias = tuple[int, int, bool, Offer]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class HostTable:
    """All hosts of one type in the fleet, in columns; rows are not ordered."""

    def __init__(self) -> None:
        self.size = 0
        self.cluster: npt.NDArray[np.intp] = np.zeros(16, np.intp)
        self.cls: npt.NDArray[np.intp] = np.zeros(16, np.intp)
        self.clean: Mask = np.zeros(16, np.bool_)
        self.count: Floats = np.zeros(16)  # floats, as numpy's weighted counting wants them
        self.columns: dict[Dim, Ints] = {}
        self.peaks: dict[Dim, int] = {}  # the largest units ever stored, to prevent overflows
        self.keys: list[RowKey] = []
        self.suffix: SuffixTable | None = None
        self.suffix_at = 0  # number of rows at which suffix counts are tried again
        self._rows: dict[RowKey, int] = {}
        self._empty: list[int] = []
        self._items: dict[tuple[Dim, int], tuple[Dim, int]] = {}  # equal parts of keys are one object

    def __len__(self) -> int:
        """Return the number of rows in use."""
        return len(self._rows)

    def add(self, key: RowKey, hosts: int) -> RowKey:
        """Add hosts to a row or remove them, free the row if it is empty, and return its interned key."""
        row = self._rows.get(key)
        if row is None:
            key = (key[0], key[1], key[2], tuple([self._items.setdefault(item, item) for item in key[3]]))
            row = self._rows[key] = self._make(key)
        self.count[row] += hosts
        if self.suffix is not None:
            self.suffix.add(key, hosts)
        key = self.keys[row]
        if not self.count[row]:
            del self._rows[key]
            self._empty.append(row)
        return key

    def _make(self, key: RowKey) -> int:
        if len(self._items) > max(MOST_ITEMS, len(self._rows)):
            self._items.clear()
        if self._empty:
            row = self._empty.pop()
            self.keys[row] = key
        else:
            row = self.size
            self.size += 1
            self.keys.append(key)
            if row >= len(self.cluster):
                self._grow(2 * len(self.cluster))
        self.cluster[row], self.cls[row], self.clean[row] = key[0], key[1], key[2]
        for column in self.columns.values():
            column[row] = 0
        for dim, units in key[3]:
            if dim not in self.columns:
                self.columns[dim] = np.zeros(len(self.cluster), np.int64)
            self.columns[dim][row] = units
            self.peaks[dim] = max(units, self.peaks.get(dim, 0))
        return row

    def _grow(self, size: int) -> None:
        self.cluster = _longer(self.cluster, size)
        self.cls = _longer(self.cls, size)
        self.clean = _longer(self.clean, size)
        self.count = _longer(self.count, size)
        self.columns = {dim: _longer(column, size) for dim, column in self.columns.items()}

    def forget(self, cluster: int) -> None:
        """Remove all rows of a cluster."""
        for row in np.flatnonzero(self.cluster[: self.size] == cluster).tolist():
            if self.count[row]:
                self.add(self.keys[row], -int(self.count[row]))


def _longer(column: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    after = np.zeros(size, column.dtype)
    after[: len(column)] = column
    return after
