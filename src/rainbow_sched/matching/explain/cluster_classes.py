"""Classes of clusters with one explanation: equal graphs whose subsystems meet the request at the same vertices."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary


@dataclass(frozen=True, slots=True)
class ClassKey:
    """Clusters with equal `situation` share the analysis; with equal `values` they share the whole explanation."""

    situation: Hashable
    values: Hashable


class ClusterClasses:
    """Classify clusters by everything that an explanation of one request can mention."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self._facts = facts
        self._named = bool(request.hosts or request.not_hosts)
        requirements = [*request.requires, *RequestSummary.of(request).requirements]
        self._subsystems = frozenset(each.subsystem for each in requirements)
        self._meeting = [facts.meeting(each) for each in requirements]
        self._about = 0  # facts of the required subsystems, as a bit set
        for subsystem in self._subsystems:
            self._about |= facts.bits_of_subsystem(subsystem)
        self._bits: dict[int, tuple[int, int]] = {}

    def key(self, fold: Fold) -> ClassKey | None:
        """Return the class of a cluster; None if the request names hosts, as every cluster then differs."""
        if self._named:
            return None
        if not self._meeting:
            return ClassKey(fold.structure, None)
        present = tuple([subsystem.name for subsystem in fold.subsystems if subsystem.name in self._subsystems])
        pattern: list[int] = []
        values: list[int] = []
        for vertex, cls in fold.attached_classes():
            bits = self._bits.get(cls) or self._read(cls)
            pattern += (vertex, bits[0])
            values.append(bits[1])
        return ClassKey((fold.structure, present, tuple(pattern)), tuple(values))

    def _read(self, cls: int) -> tuple[int, int]:
        """Return the requirements that a class of facts meets and its facts about them, as bit sets."""
        facts = self._facts.classes[cls]
        met = sum(1 << number for number, meeting in enumerate(self._meeting) if facts & meeting)
        self._bits[cls] = (met, facts & self._about)
        return self._bits[cls]
