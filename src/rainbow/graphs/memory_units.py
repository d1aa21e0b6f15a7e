"""Small numbers by vertex, most of them zero or all of them set: one column, as wide as its largest number needs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

WIDTHS = "BHIQ"  # a column of bytes becomes wider when a number does not fit


class Units(Mapping[int, int]):
    """A mapping from vertices to positive numbers; zero is the same as not there."""

    __slots__ = ("_column", "_set", "_size")

    def __init__(self, vertices: int) -> None:
        self._size = vertices
        self._set = 0  # how many are not zero
        self._column: array[int] = array(WIDTHS[0])  # empty until something is set

    def __len__(self) -> int:
        return self._set

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(np.frombuffer(self._column, self._column.typecode)).tolist() if self._set else ())

    def __getitem__(self, i: int) -> int:
        found = self._column[i] if self._set else 0
        if not found:
            raise KeyError(i)
        return found

    def __contains__(self, i: object) -> bool:
        return isinstance(i, int) and self.get(i) != 0

    def get(self, i: int, default: Any = 0) -> Any:
        """The number of a vertex."""
        return (self._column[i] if self._set else 0) or default

    def column(self) -> Sequence[int]:
        """The number of every vertex, for readers in a hurry; good until the next `put`."""
        if not self._column:
            self._column = array(WIDTHS[0], bytes(self._size))
        return self._column

    def put(self, i: int, number: int) -> None:
        """Set the number of a vertex; zero takes it out."""
        before = self._column[i] if self._set else 0
        self._set += bool(number) - bool(before)
        if not self._set:
            self._column = array(WIDTHS[0])
            return
        if not self._column:
            self._column = array(WIDTHS[0], bytes(self._size))
        try:
            self._column[i] = number
        except OverflowError:
            wider = WIDTHS[WIDTHS.index(self._column.typecode) + 1]
            self._column = array(wider, self._column)
            self._set -= bool(number) - bool(before)
            self.put(i, number)

    def add(self, i: int, more: int) -> int:
        """Add to the number of a vertex; the sum."""
        total: int = self.get(i) + more
        self.put(i, total)
        return total
