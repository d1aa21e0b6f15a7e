"""The rows of the index: for each type of host, how many hosts of a cluster offer exactly the same.

A row is (cluster, class of facts, clean or not, free units per kind of leaf) with two counts: hosts
that are so when all is free (*ever*), and hosts that are so *now*. A cluster of a thousand equal
idle nodes is one row. A change of one node moves one host from one row to another.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Dim: TypeAlias = tuple[str, str]  # the leaf's type and its unit; unit WHOLE: vertices with things inside, taken whole
WHOLE = "*"
ROOT = ""  # the name of the table in which each cluster is one host
Offer: TypeAlias = tuple[tuple[Dim, int], ...]
RowKey: TypeAlias = tuple[int, int, bool, Offer]
Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class HostTable:
    """All hosts of one type in the fleet."""

    def __init__(self) -> None:
        self.size = 0
        self.cluster: npt.NDArray[np.int32] = np.zeros(16, np.int32)
        self.cls: npt.NDArray[np.int32] = np.zeros(16, np.int32)
        self.clean: Mask = np.zeros(16, np.bool_)
        self.ever: Ints = np.zeros(16, np.int64)
        self.now: Ints = np.zeros(16, np.int64)
        self.columns: dict[Dim, Ints] = {}
        self.peaks: dict[Dim, int] = {}  # the largest units ever seen, to know what cannot overflow
        self.keys: list[RowKey] = []
        self.busy = 0  # rows whose two counts differ; 0: now is ever
        self._rows: dict[RowKey, int] = {}
        self._empty: list[int] = []

    def row(self, key: RowKey) -> int:
        """The number of the row with this content, made if there is none."""
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = self._make(key)
        return found

    def _make(self, key: RowKey) -> int:
        if self._empty:
            row = self._empty.pop()
            self.keys[row] = key
        else:
            row = self.size
            self.size += 1
            self.keys.append(key)
            if row >= len(self.cluster):
                self._grow()
        self.cluster[row], self.cls[row], self.clean[row] = key[0], key[1], key[2]
        for column in self.columns.values():
            column[row] = 0
        for dim, units in key[3]:
            if dim not in self.columns:
                self.columns[dim] = np.zeros(len(self.cluster), np.int64)
            self.columns[dim][row] = units
            self.peaks[dim] = max(units, self.peaks.get(dim, 0))
        return row

    def _grow(self) -> None:
        size = 2 * len(self.cluster)
        self.cluster, self.cls, self.clean, self.ever, self.now = (
            np.resize(self.cluster, size),
            np.resize(self.cls, size),
            np.resize(self.clean, size),
            np.resize(self.ever, size),
            np.resize(self.now, size),
        )
        half = size // 2
        self.ever[half:] = 0
        self.now[half:] = 0
        for dim, column in self.columns.items():
            self.columns[dim] = np.resize(column, size)

    def add(self, row: int, ever: int, now: int) -> None:
        """Change a row's counts; a row without hosts is given back."""
        before = self.ever[row] != self.now[row]
        self.ever[row] += ever
        self.now[row] += now
        self.busy += int(self.ever[row] != self.now[row]) - int(before)
        if not self.ever[row] and not self.now[row]:
            del self._rows[self.keys[row]]
            self._empty.append(row)

    def forget(self, cluster: int) -> None:
        """Remove all rows of a cluster."""
        for row in np.flatnonzero(self.cluster[: self.size] == cluster).tolist():
            if self.ever[row] or self.now[row]:
                self.add(row, -int(self.ever[row]), -int(self.now[row]))
