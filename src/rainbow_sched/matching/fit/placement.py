"""Choose vertices for a placed job: first fit in the graph's order, so that equal input gives equal vertices.

The result counts as used until the cluster's manager reports the real use. There is no
search: if the first fit is incomplete, the vertices found so far are taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from types import MappingProxyType
from typing import TypeAlias

from rainbow_sched.matching.fit.hints import Hints
from rainbow_sched.matching.fit.levels import Plan, Step, measured
from rainbow_sched.matching.memo import Memoized
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.model.request import Level, Request

Barred: TypeAlias = Mapping[int, frozenset[int]]
MAX_ORDERS = 24  # all orders of four parts; bounds the time of one placement
NOTHING_BARRED: Barred = MappingProxyType({})


@dataclass(slots=True)
class Placement:
    """The units that a job takes, by vertex number, and whether the placement is complete."""

    taken: dict[int, int]
    complete: bool


def place(
    fold: Fold,
    plan: Plan,
    facts: Facts,
    taken: Sequence[int],
    unavailable: set[int],
    hints: Hints | None = None,
    barred: Barred = NOTHING_BARRED,
    within: Sequence[int] | None = None,
) -> Placement:
    """Place a request on vertices that are neither taken (units by vertex) nor unavailable.

    `hints`: where to begin. `barred`: vertices that a step cannot use, by the step's number (see `host_binding.py`).
    `within`: the hosts on which the job runs, regardless of its requirements.
    """
    if plan.missing or plan.unclear:
        return Placement({}, complete=False)
    inside = None if within is None else _Within(fold, within)
    chooser = _Chooser(fold, plan.request, facts, taken, unavailable, barred, None if inside else hints, inside)
    complete = [chooser.fill(top, -1, partly=True) for top in plan.tops]
    return Placement(chooser.chosen, all(complete))


def place_groups(
    fold: Fold, plan: Plan, facts: Facts, taken: Sequence[int], unavailable: set[int], barred: Barred
) -> dict[int, dict[int, int]] | None:
    """Return the units by vertex of one complete placement, by group; None if none is found.

    An earlier part may take what a later one needs, so several orders are tried.
    """
    if plan.missing or plan.unclear:
        return None
    for tops in islice(permutations(plan.tops), MAX_ORDERS):
        chooser = _Chooser(fold, plan.request, facts, taken, unavailable, barred)
        found: dict[int, dict[int, int]] = {}
        for top in tops:
            chosen = chooser.fill_alone(top)
            if chosen is None:
                break
            mine = found.setdefault(top.path[0], {})
            for i, units in chosen.items():
                mine[i] = mine.get(i, 0) + units
        else:
            return found
    return None


@dataclass(eq=False)
class _Within:
    """The vertices inside some hosts and above them."""

    _fold: Fold
    _hosts: Sequence[int]

    def inside(self, anchor: int, type: str) -> list[int]:
        """Return the vertices of a type inside `anchor` (below 0: anywhere), in the graph's order."""
        found, above = self._of_type(type), self._fold.structure.above
        return found if anchor <= 0 else [i for i in found if i != anchor and anchor in above(i)]

    @Memoized
    def _of_type(self, type: str) -> list[int]:
        structure = self._fold.structure
        found: set[int] = set()
        for host in self._hosts:
            found.update(structure.inside(host, type))
            found.update(i for i in structure.above(host) if structure.graph.types[i] == type)
        return sorted(found)


@dataclass(eq=False)
class _Chooser:
    fold: Fold
    request: Request
    facts: Facts
    before: Sequence[int]  # taken units by vertex
    unavailable: set[int]
    barred: Barred
    hints: Hints | None = None
    within: _Within | None = None

    def __post_init__(self) -> None:
        self.chosen: dict[int, int] = {}
        self._log: list[tuple[int, int]] = []  # undo log: changed vertices with their previous values
        self.sizes = self.fold.graph.sizes
        self.hosts, self.not_hosts = frozenset(self.request.hosts), frozenset(self.request.not_hosts)
        self.unnamed = self.within is not None or not (self.hosts or self.not_hosts or self.request.properties)

    def fill_alone(self, top: Step) -> dict[int, int] | None:
        """Return the units by vertex that one top step of the request takes, or None if it does not fit."""
        mark = len(self._log)
        if not self.fill(top, -1):
            return None
        before: dict[int, int] = {}
        for i, units in self._log[mark:]:
            before.setdefault(i, units)
        return {i: self.chosen[i] - units for i, units in before.items()}

    def fill(self, step: Step, anchor: int, *, partly: bool = False) -> bool:
        """Place `step` inside `anchor`; if it does not fit completely, undo it unless `partly`."""
        mark = len(self._log)
        done = self._take(step, anchor) if step.leaf else self._slots(step, anchor)
        if not done and not partly:
            self._undo(mark)
        return done

    def _set(self, i: int, units: int) -> None:
        self._log.append((i, self.chosen.get(i, 0)))
        self.chosen[i] = units

    def _undo(self, mark: int) -> None:
        """Undo all changes after the first `mark` entries of the log."""
        while len(self._log) > mark:
            i, units = self._log.pop()
            if units:
                self.chosen[i] = units
            else:
                del self.chosen[i]

    def _slots(self, step: Step, anchor: int) -> bool:
        if step.virtual:
            return all(self._at(step, max(anchor, 0)) for _ in range(step.need))
        left, first = step.need, True
        for host in self._inside(anchor, step):
            placed = False
            while self._at(step, host):
                left, placed = left - 1, True
                if not left:
                    return True
                if step.level.exclusive or not step.level.shared:
                    break
            first = first and not placed
            if first and anchor < 0 and self.hints is not None:
                passed = bisect_left(self.fold.structure.of_type(step.level.type), host) + 1
                self.hints.ran_dry(self._key(step), step.level.type, passed)
        return False

    def _key(self, step: Step) -> tuple[Level, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return a key; steps with equal keys fit the same hosts."""
        return step.level, self.request.hosts, self.request.not_hosts, self.request.properties

    def _at(self, step: Step, host: int) -> bool:
        """Place one slot of `step` in `host`."""
        if step.level.exclusive and not self._clean(host):
            return False
        mark = len(self._log)
        for inner in step.inside:
            if not self.fill(inner, host):
                self._undo(mark)
                return False
        if step.level.exclusive:
            self._seize(host)
        return True

    def _take(self, step: Step, anchor: int) -> bool:
        left = step.need
        kids = self.fold.structure.kids
        if self.unnamed and not step.level.exclusive and self.fold.structure.only_leaves(step.level.type):
            return self._take_units(step, anchor)
        worth = self._worth(step)
        for i in self._inside(anchor, step):
            if left <= 0:
                break
            if kids.has(i) or step.level.exclusive:
                if i not in self.unavailable and self._clean(i) and self._up(i) and self._all_allowed(i):
                    left -= measured(step.mode, self.sizes[i], self.fold.graph.units[i]) or 0
                    self._seize(i)
                continue
            free = 0 if i in self.unavailable else self.sizes[i] - self.before[i] - self.chosen.get(i, 0)
            if free <= 0 or not (self.unnamed or self._allowed(i)):
                continue
            one = worth[self.fold.graph.units[i]]
            if not one:
                continue
            units = min(free, -(-left // one))
            self._set(i, self.chosen.get(i, 0) + units)
            left -= units * one
        return left <= 0

    def _worth(self, step: Step) -> dict[str, int]:
        """Return how much one unit of a vertex counts for a leaf step, by the vertex's unit."""
        return {unit: measured(step.mode, 1, unit) or 0 for unit in self.fold.structure.units[step.level.type]}

    def _take_units(self, step: Step, anchor: int) -> bool:
        """Do the same as `_take` for the common case: shared leaves."""
        left, chosen, before, unavailable = step.need, self.chosen, self.before, self.unavailable
        sizes, units = self.sizes, self.fold.graph.units
        worth = self._worth(step)
        for i in self._inside(anchor, step):
            free = sizes[i] - before[i]
            if free <= 0 or (chosen and (free := free - chosen.get(i, 0)) <= 0) or i in unavailable:
                continue
            one = worth[units[i]]
            if not one:
                continue
            taken = min(free, -(-left // one))
            self._set(i, chosen.get(i, 0) + taken)
            left -= taken * one
            if left <= 0:
                return True
        return left <= 0

    def _inside(self, anchor: int, step: Step) -> Iterable[int]:
        """Return the vertices inside `anchor` that `step` could use, in the graph's order."""
        structure, type = self.fold.structure, step.level.type
        if self.within is not None:
            return self.within.inside(anchor, type)
        if anchor <= 0:
            found: Iterable[int] = structure.of_type(type)
            if anchor < 0 and self.hints is not None and not step.leaf:
                found = self.hints.worth_trying(self._key(step), type)
        else:
            found = structure.inside(anchor, type)
        barred = self.barred.get(step.number)
        if barred:
            found = [i for i in found if i not in barred]
        requires = step.level.requires
        if not requires:
            return found if anchor else (i for i in found if i)
        holds, cls = self.facts.holds, self.fold.cls
        return (i for i in found if i != anchor and all(holds(requirement, cls(i)) for requirement in requires))

    def _clean(self, i: int) -> bool:
        return not any(self.before[j] or self.chosen.get(j) for j in self.fold.structure.below(i))

    def _up(self, i: int) -> bool:
        return self.unavailable.isdisjoint(self.fold.structure.below(i))

    def _seize(self, i: int) -> None:
        for j in self.fold.structure.below(i):
            self._set(j, self.sizes[j])

    def _all_allowed(self, i: int) -> bool:
        """Return True if the vertex and everything inside may be used."""
        return self.unnamed or all(self._allowed(j) for j in self.fold.structure.below(i))

    def _allowed(self, i: int) -> bool:
        structure = self.fold.structure
        carried = structure.properties(i)
        if any(p[1:] in carried if p.startswith("^") else p not in carried for p in self.request.properties):
            return False
        if not self.hosts and not self.not_hosts:
            return True
        names = set(map(structure.name, structure.above(i)))
        return self.not_hosts.isdisjoint(names) and (not self.hosts or not self.hosts.isdisjoint(names))
