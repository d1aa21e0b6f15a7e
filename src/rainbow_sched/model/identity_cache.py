"""What was worked out from a value, kept for when the same value comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
V = TypeVar("V")
MOST = 2_048


class IdentityCache(Generic[*Ts, V]):
    """A function of values that never change, which finds its answers again by the values' identity.

    A request that many jobs share is one object; comparing it with another would cost as much as
    working the answer out.
    """

    __slots__ = ("_known", "_make", "_most")

    def __init__(self, make: Callable[[*Ts], V], most: int = MOST) -> None:
        self._make = make
        self._most = most
        self._known: dict[object, tuple[tuple[*Ts], V]] = {}  # holds the values, too: their ids stay theirs

    def __call__(self, *values: *Ts) -> V:
        """The answer for these values."""
        key = id(*values) if len(values) == 1 else tuple(map(id, values))
        found = self._known.get(key)
        if found is not None:
            return found[1]
        answer = self._make(*values)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[key] = (values, answer)
        return answer
