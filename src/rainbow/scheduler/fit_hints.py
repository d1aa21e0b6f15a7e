"""Where to begin to look for room: hosts before the hint had none for the same step, and nothing came back there."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable

from rainbow.scheduler.fold_structure import Structure

MOST_KEPT = 256


class Hints:
    """For each kind of step how many of its hosts, in the graph's order, can be passed over."""

    __slots__ = ("_first", "_structure")

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._first: dict[Hashable, tuple[str, int]] = {}

    def worth_trying(self, key: Hashable, type: str) -> array[int]:
        """The hosts of a type from the first that may have room."""
        known = self._first.get(key)
        found = self._structure.of_type(type)
        return found[known[1] :] if known else found

    def ran_dry(self, key: Hashable, type: str, host: int) -> None:
        """No room in `host`, nor in any before it."""
        if len(self._first) >= MOST_KEPT and key not in self._first:
            self._first.clear()
        self._first[key] = (type, bisect_left(self._structure.of_type(type), host) + 1)

    def came_back(self, vertex: int) -> None:
        """Something of a vertex is free again: hosts from the one around it on are worth trying."""
        parents, types = self._structure.graph.parents, self._structure.graph.types
        around: dict[str, int] = {}
        while vertex >= 0:
            around[types[vertex]] = vertex
            vertex = parents[vertex]
        for key, (type, passed) in list(self._first.items()):
            at = around.get(type)
            before = 0 if at is None else bisect_left(self._structure.of_type(type), at)
            if before < passed:
                self._first[key] = (type, before)
