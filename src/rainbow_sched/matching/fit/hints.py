"""Where to begin to look for room: hosts before the hint had none for the same step, and nothing came back there."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Hashable

from rainbow_sched.matching.structure.hierarchy import Structure

MOST_KEPT = 256
MOST_RETURNED = 512


class _OfType:
    """The hints for hosts of one type. What came back is written down once, and read by each hint when it is used."""

    __slots__ = ("passed", "returned")

    def __init__(self) -> None:
        self.passed: dict[Hashable, tuple[int, int]] = {}  # hosts to pass over, and how much of `returned` it knows of
        self.returned: list[int] = []  # positions of hosts in which something came back

    def first(self, key: Hashable) -> int:
        known = self.passed.get(key)
        if known is None:
            return 0
        passed, read = known
        if read < len(self.returned):
            passed = min(passed, *self.returned[read:])
            self.passed[key] = (passed, len(self.returned))
        return passed

    def came_back(self, position: int) -> None:
        self.returned.append(position)
        if len(self.returned) > MOST_RETURNED:
            self.passed = {key: (self.first(key), 0) for key in tuple(self.passed)}
            self.returned.clear()


class Hints:
    """For each kind of step how many of its hosts, in the graph's order, can be passed over."""

    __slots__ = ("_of", "_structure")

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._of: dict[str, _OfType] = {}

    def first(self, key: Hashable, type: str) -> int:
        """How many of the hosts of a type can be passed over."""
        of = self._of.get(type)
        return 0 if of is None else of.first(key)

    def worth_trying(self, key: Hashable, type: str) -> array[int]:
        """The hosts of a type from the first that may have room."""
        found = self._structure.of_type(type)
        first = self.first(key, type)
        return found[first:] if first else found

    def ran_dry(self, key: Hashable, type: str, hosts: int) -> None:
        """No room in the first so many hosts of a type."""
        of = self._of.get(type)
        if of is None:
            of = self._of[type] = _OfType()
        if len(of.passed) >= MOST_KEPT and key not in of.passed:
            of.passed.clear()
        of.passed[key] = (hosts, len(of.returned))

    def came_back(self, vertices: Collection[int]) -> None:
        """Something of these vertices is free again: hosts from the first around them on are worth trying."""
        if not self._of or not vertices:
            return
        graph = self._structure.graph
        starts = {i if graph.types[i] in self._of else graph.parents[i] for i in vertices}
        for type, of in self._of.items():
            first = min(self._outermost(i, type) for i in starts)  # all behind it are worth trying, too
            of.came_back(0 if first < 0 else bisect_left(self._structure.of_type(type), first))

    def _outermost(self, vertex: int, type: str) -> int:
        """The outermost vertex of a type at or around this one; -1 if there is none."""
        parents, types = self._structure.graph.parents, self._structure.graph.types
        found = -1
        while vertex >= 0:
            if types[vertex] == type:
                found = vertex
            vertex = parents[vertex]
        return found
