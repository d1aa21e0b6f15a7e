"""Cache of a pure function, keyed by the identity of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
V = TypeVar("V")
MAX_ENTRIES = 2_048


class IdentityCache(Generic[*Ts, V]):
    """Cache the results of a function of immutable arguments by the arguments' identity.

    Jobs often share one request object; comparing requests by value would cost as much as computing the result.
    """

    __slots__ = ("_entries", "_function", "_max_entries")

    def __init__(self, function: Callable[[*Ts], V], max_entries: int = MAX_ENTRIES) -> None:
        self._function = function
        self._max_entries = max_entries
        self._entries: dict[object, tuple[tuple[*Ts], V]] = {}  # holds the arguments, so that no id is reused

    def __call__(self, *arguments: *Ts) -> V:
        """Return the function's result for these arguments."""
        key = id(*arguments) if len(arguments) == 1 else tuple(map(id, arguments))
        entry = self._entries.get(key)
        if entry is not None:
            return entry[1]
        result = self._function(*arguments)
        if len(self._entries) >= self._max_entries:
            self._entries.clear()
        self._entries[key] = (arguments, result)
        return result
