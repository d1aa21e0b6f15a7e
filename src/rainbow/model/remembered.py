"""What was worked out from a value, kept for when the same value comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST = 2_048


class Remembered(Generic[K, V]):
    """A function of values that never change, which finds its answers again by the value's identity.

    A request that many jobs share is one object; comparing it with another would cost as much as
    working the answer out.
    """

    __slots__ = ("_known", "_make", "_most")

    def __init__(self, make: Callable[[K], V], most: int = MOST) -> None:
        self._make = make
        self._most = most
        self._known: dict[int, tuple[K, V]] = {}  # holds the value, too, so that its id stays its own

    def __call__(self, value: K) -> V:
        """The answer for `value`."""
        found = self._known.get(id(value))
        if found is not None:
            return found[1]
        answer = self._make(value)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[id(value)] = (value, answer)
        return answer
