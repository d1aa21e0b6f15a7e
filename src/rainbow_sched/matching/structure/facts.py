"""Interned subsystem vertices: equal vertices are one fact, equal sets of facts are one class.

A *fact* is the content of a subsystem vertex and everything below it. A *class* is the set of facts that
hold at a dominant vertex: those attached to it or above it, and everything below those. A fleet of a
million nodes has few classes, and a requirement is evaluated once per fact, not once per node.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

from rainbow_sched.matching.structure.values import FieldValues, RunsRelation, bits_of, numbers_of, union
from rainbow_sched.model.graph import Subsystem, Vertex
from rainbow_sched.model.request import Equals, Requirement, Runs, Scalar

MAX_CACHED_REQUIREMENTS = 10_000  # bounds the memory of the cache
Values = tuple[Scalar, ...]

# Keys of the JGF format itself, which number vertices.
_NOT_FACTS = frozenset({"id", "uniq_id", "paths", "rank", "ephemeral"})


def fields_of(vertex: Vertex) -> dict[str, Values]:
    """Return the fields that a requirement can use: the vertex's type, name, size and unit, and its metadata."""
    fields: dict[str, Values] = {"type": (vertex.type,), "size": (vertex.size,)}
    if vertex.name:
        fields["name"] = (vertex.name,)
    if vertex.unit:
        fields["unit"] = (vertex.unit,)
    for key, value in vertex.metadata.items():
        if key in _NOT_FACTS:
            continue
        values = value if isinstance(value, (list, tuple)) else (value,)
        scalars = tuple(item for item in values if isinstance(item, (str, int, float)))
        if scalars:
            fields[key] = scalars
    return fields


def value_types(requires: Iterable[Requirement]) -> tuple[type, ...]:
    """Return the types of the requirements' values, for cache keys: Python treats 1, 1.0 and True as equal."""
    types: list[type] = []
    for requirement in requires:
        for term in requirement.terms:
            if isinstance(term, Equals):
                types.append(type(term.value))
            elif not isinstance(term, Runs):
                types += (type(term.min), type(term.max))
        if requirement.below:
            types += value_types(requirement.below)
    return tuple(types)


class Facts:
    """All facts and classes of a fleet, and a cache of the facts that meet each requirement."""

    def __init__(self, runs: RunsRelation = operator.eq) -> None:
        """`runs` compares microarchitectures; by name only if there is no table of them."""
        self._runs = runs
        self.fields: list[Mapping[str, Values]] = []  # by fact
        self._below: list[frozenset[int]] = []  # by fact: every fact strictly below
        self._by_content: dict[object, int] = {}
        self._of_subsystem: dict[str, list[int]] = {}
        self.classes: list[int] = [0]  # by class: its facts as a bit set
        self._class_numbers: dict[int, int] = {0: 0}  # by facts
        self._classes_with: list[int] = []  # by fact: its classes as a bit set
        self._joined: dict[tuple[int, frozenset[int]], int] = {}
        self._values: dict[tuple[str, str], FieldValues] = {}  # by subsystem and field
        self._meeting: dict[object, tuple[int, int]] = {}

    def read(self, subsystem: Subsystem) -> dict[str, frozenset[int]]:
        """Return for each dominant id the facts that the subsystem attaches to it, with all below them."""
        kids: list[list[int]] = [[] for _ in subsystem.vertices]
        numbers = [0] * len(subsystem.vertices)
        closed: list[frozenset[int]] = [frozenset()] * len(subsystem.vertices)
        attached: dict[str, set[int]] = {}
        for i in range(len(subsystem.vertices) - 1, -1, -1):  # children before parents
            below = frozenset().union(*(closed[kid] for kid in kids[i])) if kids[i] else frozenset[int]()
            direct = tuple(sorted(numbers[kid] for kid in kids[i]))
            numbers[i] = self._fact(subsystem.name, subsystem.vertices[i], direct, below)
            closed[i] = below | {numbers[i]}
            if subsystem.parents[i] >= 0:
                kids[subsystem.parents[i]].append(i)
            for id in subsystem.hangs_on[i]:
                attached.setdefault(id, set()).update(closed[i])
        return {id: frozenset(numbers) for id, numbers in attached.items()}

    def _fact(self, subsystem: str, vertex: Vertex, direct: tuple[int, ...], below: frozenset[int]) -> int:
        fields = fields_of(vertex)
        # The type is part of the key, as 1, 1.0 and True are different values.
        content = tuple(sorted((key, tuple((type(v).__name__, v) for v in values)) for key, values in fields.items()))
        key = (subsystem, content, direct)
        number = self._by_content.get(key)
        if number is None:
            number = self._by_content[key] = len(self.fields)
            self.fields.append(fields)
            self._below.append(below)
            self._classes_with.append(0)
            self._of_subsystem.setdefault(subsystem, []).append(number)
            for field, values in fields.items():
                self._values.setdefault((subsystem, field), FieldValues()).add(number, values)
        return number

    def join(self, above: int, attached: frozenset[int]) -> int:
        """Return the class of a vertex with `attached` facts below a vertex of class `above`."""
        key = (above, attached)
        number = self._joined.get(key)
        if number is None:
            facts = self.classes[above] | bits_of(attached)
            number = self._class_numbers.get(facts)
            if number is None:
                number = self._class_numbers[facts] = len(self.classes)
                self.classes.append(facts)
                for fact in numbers_of(facts):
                    self._classes_with[fact] |= 1 << number
            self._joined[key] = number
        return number

    def meeting(self, requirement: Requirement) -> int:
        """Return the facts that meet a requirement, as a bit set."""
        size = len(self._of_subsystem.get(requirement.subsystem, ()))
        key = (requirement, value_types((requirement,)))
        cached = self._meeting.get(key)
        if cached is not None and cached[0] == size:
            return cached[1]
        met = self._meet(requirement)
        if len(self._meeting) >= MAX_CACHED_REQUIREMENTS:
            self._meeting.clear()
        self._meeting[key] = (size, met)
        return met

    def _meet(self, requirement: Requirement) -> int:
        met = -1
        for term in requirement.terms:
            values = self._values.get((requirement.subsystem, term.field))
            met &= values.meeting(term, self._runs) if values else 0
        if not requirement.terms:
            met = self.bits_of_subsystem(requirement.subsystem)
        if not requirement.below:
            return met
        inner = [self.meeting(each) for each in requirement.below]
        return bits_of(fact for fact in numbers_of(met) if all(bits_of(self._below[fact]) & each for each in inner))

    def holds(self, requirement: Requirement, number: int) -> bool:
        """Return True if a vertex of this class meets the requirement."""
        return bool(self.classes[number] & self.meeting(requirement))

    def bits_of_subsystem(self, name: str) -> int:
        """Return the facts of all subsystems of this name as a bit set."""
        return bits_of(self._of_subsystem.get(name, ()))

    def class_bits(self, requirement: Requirement) -> int:
        """Return the classes that meet the requirement as a bit set."""
        return union(self._classes_with[fact] for fact in numbers_of(self.meeting(requirement)))
