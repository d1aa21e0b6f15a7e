"""Search hints: the hosts before a hint had no room for the same step, and nothing was freed there since."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Hashable

from rainbow_sched.matching.structure.hierarchy import Structure

MAX_HINTS_PER_TYPE = 256  # bounds the memory of the hints
MAX_RETURNED = 512  # freed positions in the log; bounds its memory and the time to read it


class _OfType:
    """The hints for hosts of one type. Freed positions are logged once, and each hint reads the log when it is used."""

    __slots__ = ("passed", "returned")

    def __init__(self) -> None:
        self.passed: dict[Hashable, tuple[int, int]] = {}  # hosts to skip, and the entries of `returned` already read
        self.returned: list[int] = []  # positions of hosts in which something was freed

    def first(self, key: Hashable) -> int:
        cached = self.passed.get(key)
        if cached is None:
            return 0
        passed, read = cached
        if read < len(self.returned):
            passed = min(passed, *self.returned[read:])
            self.passed[key] = (passed, len(self.returned))
        return passed

    def came_back(self, position: int) -> None:
        self.returned.append(position)
        if len(self.returned) > MAX_RETURNED:
            self.passed = {key: (self.first(key), 0) for key in tuple(self.passed)}
            self.returned.clear()


class Hints:
    """The number of hosts that can be skipped for each step key, in the graph's order."""

    __slots__ = ("_of", "_structure")

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._of: dict[str, _OfType] = {}

    def first(self, key: Hashable, type: str) -> int:
        """Return how many hosts of a type can be skipped."""
        of = self._of.get(type)
        return 0 if of is None else of.first(key)

    def worth_trying(self, key: Hashable, type: str) -> array[int]:
        """Return the hosts of a type from the first that may have room."""
        found = self._structure.of_type(type)
        first = self.first(key, type)
        return found[first:] if first else found

    def ran_dry(self, key: Hashable, type: str, hosts: int) -> None:
        """Record that the first `hosts` hosts of a type have no room."""
        of = self._of.get(type)
        if of is None:
            of = self._of[type] = _OfType()
        if len(of.passed) >= MAX_HINTS_PER_TYPE and key not in of.passed:
            of.passed.clear()
        of.passed[key] = (hosts, len(of.returned))

    def came_back(self, vertices: Collection[int]) -> None:
        """Record that something of these vertices was freed: hosts from the first around them may have room."""
        if not self._of or not vertices:
            return
        graph = self._structure.graph
        starts = {i if graph.types[i] in self._of else graph.parents[i] for i in vertices}
        for type, of in self._of.items():
            first = min(self._outermost(i, type) for i in starts)  # all later ones may have room, too
            of.came_back(0 if first < 0 else bisect_left(self._structure.of_type(type), first))

    def _outermost(self, vertex: int, type: str) -> int:
        """Return the outermost vertex of a type at or around this one; -1 if there is none."""
        parents, types = self._structure.graph.parents, self._structure.graph.types
        found = -1
        while vertex >= 0:
            if types[vertex] == type:
                found = vertex
            vertex = parents[vertex]
        return found
