"""What subsystems say, interned: equal vertices are one fact, equal sets of facts one class.

A *fact* is a subsystem vertex with all below it, by content. A *class* is the set of facts that
speak for a dominant vertex: those hung on it or above it, and all below those. A fleet of a
million nodes has few classes, and a requirement is judged once per fact, not once per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rainbow_sched.matching.structure.values import FieldValues, RunsRelation, bits_of, numbers_of
from rainbow_sched.model.graph import Subsystem, Vertex
from rainbow_sched.model.request import Equals, Requirement, Runs, Scalar

MOST_KEPT = 10_000
Values = tuple[Scalar, ...]

# Keys of the JGF format itself: they number vertices and say nothing about them.
_NOT_FACTS = frozenset({"id", "uniq_id", "paths", "rank", "ephemeral"})


def same_target(found: str, target: str) -> bool:
    """The relation for a place without a table of microarchitectures: only equal names run each other."""
    return found == target


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """The content of one subsystem vertex and what is below it; equal content is one object."""

    number: int
    subsystem: str
    fields: Mapping[str, Values]
    below: frozenset[int]  # every fact strictly below
    name: str = ""


def fields_of(vertex: Vertex) -> dict[str, Values]:
    """The fields that a requirement can speak of: the metadata, then the vertex's own type, name, size and unit."""
    found: dict[str, Values] = {"type": (vertex.type,), "size": (vertex.size,)}
    if vertex.name:
        found["name"] = (vertex.name,)
    if vertex.unit:
        found["unit"] = (vertex.unit,)
    for key, value in vertex.metadata.items():
        if key in _NOT_FACTS:
            continue
        values = value if isinstance(value, (list, tuple)) else (value,)
        scalars = tuple(item for item in values if isinstance(item, (str, int, float)))
        if scalars:
            found[key] = scalars
    return found


def kinds(requires: Iterable[Requirement]) -> tuple[type, ...]:
    """The types of a requirement's values: Python holds 1, 1.0 and True for equal, a requirement does not."""
    found: list[type] = []
    for requirement in requires:
        for term in requirement.terms:
            if isinstance(term, Equals):
                found.append(type(term.value))
            elif not isinstance(term, Runs):
                found += (type(term.min), type(term.max))
        if requirement.below:
            found += kinds(requirement.below)
    return tuple(found)


class Facts:
    """All facts and classes of a fleet, and which facts meet which requirement."""

    def __init__(self, runs: RunsRelation = same_target) -> None:
        self._runs = runs
        self.facts: list[Fact] = []
        self._by_content: dict[object, int] = {}
        self._of_subsystem: dict[str, list[int]] = {}
        self.classes: list[frozenset[int]] = [frozenset()]
        self._class_numbers: dict[frozenset[int], int] = {frozenset(): 0}
        self._classes_with: list[int] = []  # by fact: the classes that it is in, as bits of a number
        self._joined: dict[tuple[int, frozenset[int]], int] = {}
        self._class_facts: list[int] = [0]  # by class: its facts, as bits of a number
        self._values: dict[tuple[str, str], FieldValues] = {}  # by subsystem and field
        self._meeting: dict[object, tuple[int, int]] = {}

    def read(self, subsystem: Subsystem) -> dict[str, frozenset[int]]:
        """For each dominant id the facts that the subsystem hangs on it, with all below them."""
        kids: list[list[int]] = [[] for _ in subsystem.vertices]
        numbers = [0] * len(subsystem.vertices)
        closed: list[frozenset[int]] = [frozenset()] * len(subsystem.vertices)
        hung: dict[str, set[int]] = {}
        for i in range(len(subsystem.vertices) - 1, -1, -1):  # parents come first, so children are known here
            below = frozenset().union(*(closed[kid] for kid in kids[i])) if kids[i] else frozenset[int]()
            direct = tuple(sorted(numbers[kid] for kid in kids[i]))
            numbers[i] = self._fact(subsystem.name, subsystem.vertices[i], direct, below)
            closed[i] = below | {numbers[i]}
            if subsystem.parents[i] >= 0:
                kids[subsystem.parents[i]].append(i)
            for id in subsystem.hangs_on[i]:
                hung.setdefault(id, set()).update(closed[i])
        return {id: frozenset(found) for id, found in hung.items()}

    def _fact(self, subsystem: str, vertex: Vertex, direct: tuple[int, ...], below: frozenset[int]) -> int:
        fields = fields_of(vertex)
        # 1, 1.0 and True are one key in a dict but not one value here.
        content = tuple(sorted((key, tuple((type(v).__name__, v) for v in values)) for key, values in fields.items()))
        key = (subsystem, content, direct)
        number = self._by_content.get(key)
        if number is None:
            number = self._by_content[key] = len(self.facts)
            self._classes_with.append(0)
            self.facts.append(Fact(number, subsystem, fields, below, vertex.name or vertex.id))
            self._of_subsystem.setdefault(subsystem, []).append(number)
            for field, values in fields.items():
                self._values.setdefault((subsystem, field), FieldValues()).add(number, values)
        return number

    def join(self, above: int, hung: frozenset[int]) -> int:
        """The class of a vertex below a vertex of class `above`, with `hung` facts of its own."""
        key = (above, hung)
        number = self._joined.get(key)
        if number is None:
            facts = self.classes[above] | hung
            number = self._class_numbers.get(facts)
            if number is None:
                number = self._class_numbers[facts] = len(self.classes)
                self.classes.append(facts)
                self._class_facts.append(bits_of(facts))
                for fact in facts:
                    self._classes_with[fact] |= 1 << number
            self._joined[key] = number
        return number

    def meeting(self, requirement: Requirement) -> int:
        """The facts that meet a requirement by themselves, as bits of a number."""
        known = len(self._of_subsystem.get(requirement.subsystem, ()))
        key = (requirement, kinds((requirement,)))
        kept = self._meeting.get(key)
        if kept is not None and kept[0] == known:
            return kept[1]
        met = self._meet(requirement)
        if len(self._meeting) >= MOST_KEPT:
            self._meeting.clear()
        self._meeting[key] = (known, met)
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
        return bits_of(
            fact for fact in numbers_of(met) if all(bits_of(self.facts[fact].below) & each for each in inner)
        )

    def holds(self, requirement: Requirement, number: int) -> bool:
        """Is the requirement met at a vertex of this class?"""
        return bool(self._class_facts[number] & self.meeting(requirement))

    def bits_of_class(self, number: int) -> int:
        """The facts of a class, as bits of a number."""
        return self._class_facts[number]

    def bits_of_subsystem(self, name: str) -> int:
        """The facts of all subsystems of a name, as bits of a number."""
        return bits_of(self._of_subsystem.get(name, ()))

    def class_bits(self, requirement: Requirement) -> int:
        """The classes at which the requirement is met, as the bits of one number."""
        bits = 0
        for fact in numbers_of(self.meeting(requirement)):
            bits |= self._classes_with[fact]
        return bits
