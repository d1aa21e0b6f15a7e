"""Which clusters have one situation: equal graphs whose subsystems meet the request at the same vertices."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.model.request import Request


@dataclass(frozen=True, slots=True)
class ClassKey:
    """`situation` is equal for clusters in one situation; `said`, too, if the values that are there are the same."""

    situation: Hashable
    said: Hashable


class ClusterClasses:
    """Tells whole graphs apart only by what an explanation of one request can mention."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self._facts = facts
        self._named = bool(request.hosts or request.not_hosts)
        asked = [*request.requires, *(each for level in request.walk() for each in level.requires)]
        self._subsystems = frozenset(each.subsystem for each in asked)
        self._meeting = [facts.meeting(each) for each in asked]
        self._about = 0  # facts that a requirement could speak of, as bits of a number
        for subsystem in self._subsystems:
            self._about |= facts.bits_of_subsystem(subsystem)
        self._known: dict[int, tuple[int, int]] = {}

    def key(self, fold: Fold) -> ClassKey | None:
        """None if the request names hosts: then each cluster is a case of its own."""
        if self._named:
            return None
        if not self._meeting:
            return ClassKey(fold.structure, None)
        present = tuple([known.name for known in fold.subsystems if known.name in self._subsystems])
        pattern: list[int] = []
        said: list[int] = []
        for vertex, cls in fold.attached_classes():
            known = self._known.get(cls) or self._look(cls)
            pattern += (vertex, known[0])
            said.append(known[1])
        return ClassKey((fold.structure, present, tuple(pattern)), tuple(said))

    def _look(self, cls: int) -> tuple[int, int]:
        """Which requirements a class of facts meets, and what it says about them, each as the bits of a number."""
        mine = self._facts.bits_of_class(cls)
        met = sum(1 << number for number, meeting in enumerate(self._meeting) if mine & meeting)
        self._known[cls] = (met, mine & self._about)
        return self._known[cls]
