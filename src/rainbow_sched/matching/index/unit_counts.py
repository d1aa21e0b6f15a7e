"""A compact mapping from vertices to small numbers: one column, as wide as its largest number needs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rainbow_sched.matching.fit.quick_placement import Column

WIDTHS = "BHIQ"  # a column of bytes becomes wider when a number does not fit


class UnitCounts(Mapping[int, int]):
    """A mapping from vertices to positive numbers; zero means absent."""

    __slots__ = ("_column", "_set", "_size")

    def __init__(self, vertices: int) -> None:
        self._size = vertices
        self._set = 0  # number of entries above zero
        self._column: Column = bytearray()  # empty while all are zero

    def __len__(self) -> int:
        return self._set

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(np.frombuffer(self._column, self._width())).tolist() if self._set else ())

    def __getitem__(self, i: int) -> int:
        units = self._column[i] if self._set else 0
        if not units:
            raise KeyError(i)
        return units

    def __contains__(self, i: object) -> bool:
        return isinstance(i, int) and self.get(i) != 0

    def get(self, i: int, default: Any = 0) -> Any:
        """Return the number of a vertex."""
        return (self._column[i] if self._set else 0) or default

    def column(self) -> Column:
        """Return the numbers of all vertices as an array, for fast readers; valid until the next change."""
        if not self._column:
            self._column = bytearray(self._size)
        return self._column

    def put(self, i: int, number: int) -> None:
        """Set the number of a vertex; zero removes it."""
        column = self.column()
        self._set += (not column[i]) - (not number)
        try:
            column[i] = number
        except (OverflowError, ValueError):  # of arrays, and of bytes
            self._wider(i, number)
        self._shrink()

    def add(self, i: int, more: int) -> int:
        """Add to the number of a vertex and return the sum."""
        total: int = self.get(i) + more
        self.put(i, total)
        return total

    def add_all(self, more: Mapping[int, int], before: dict[int, int], sign: int = 1) -> None:
        """Add to (or with sign -1 subtract from) many numbers; store unknown previous numbers in `before`."""
        column, more_set = self.column(), 0
        for i, units in more.items():
            was = column[i]
            number = was + units if sign > 0 else was - units
            before.setdefault(i, was)
            if not was:
                more_set += 1
            if not number:
                more_set -= 1
            try:
                column[i] = number
            except (OverflowError, ValueError):
                column = self._wider(i, number)
        self._set += more_set
        self._shrink()

    def _wider(self, i: int, number: int) -> Column:
        """Widen the column for a number and set the number."""
        width = next(width for width in WIDTHS if number < 1 << 8 * array(width).itemsize)
        wider = array(width, iter(self._column))
        wider[i] = number
        self._column = wider
        return wider

    def _shrink(self) -> None:
        if not self._set:
            self._column = bytearray()

    def _width(self) -> str:
        return "B" if isinstance(self._column, bytearray) else self._column.typecode
