"""Fast placement of common requests: slots of plain leaves inside hosts, or anywhere in the cluster.

It takes the same vertices as `placement.place`, and leaves all other requests to that.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from rainbow_sched.matching.fit.hints import Hints
from rainbow_sched.matching.fit.levels import Plan, Planner, Step, measured
from rainbow_sched.matching.fit.placement import NOTHING_BARRED, Barred, Placement, place
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary

MIN_RANGE = 6  # vertices from which on checking a range at once is faster
Leaf: TypeAlias = tuple[str, int]  # a type, and how many units of its vertices one slot takes
Column: TypeAlias = "bytearray | array[int]"  # units by vertex; bytes are searched faster


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """`count` slots of `leaves`, each inside one `host`, repeated `times`."""

    host: str
    count: int
    leaves: tuple[Leaf, ...]
    shared: bool  # a host may have several slots
    times: int
    wrapped: bool  # each repetition is placed completely or not at all


@dataclass(frozen=True, slots=True)
class Anywhere:
    """`slots` with the given units per type; if not all fit, a multiple of `together` is placed."""

    leaves: tuple[tuple[str, int], ...]
    slots: int
    together: int


class Placer:
    """Place one request on any cluster."""

    def __init__(self, request: Request, summary: RequestSummary) -> None:
        self.planner = Planner(request, summary)
        self._forms: dict[int, tuple[Plan, Quick | Anywhere | None]] = {}  # by the kind of structure

    def place(
        self,
        fold: Fold,
        facts: Facts,
        taken: Column,
        unavailable: set[int],
        hints: Hints,
        barred: Barred = NOTHING_BARRED,
        within: Sequence[int] | None = None,
    ) -> Placement:
        """Place the request; the arguments are those of `placement.place`.

        Only requests without a quick form have `barred` vertices.
        """
        structure = fold.structure
        cached = self._forms.get(structure.kind)
        if cached is None:
            plan = self.planner.plan(structure.units)
            cached = self._forms[structure.kind] = (plan, read_quick(plan, structure))
        plan, quick = cached
        if quick is None or within is not None:
            return place(fold, plan, facts, taken, unavailable, hints, barred, within)
        if isinstance(quick, Anywhere):
            return place_anywhere(quick, structure, taken, unavailable, hints)
        return place_quick(quick, structure, taken, unavailable, hints)


def read_quick(plan: Plan, structure: Structure) -> Quick | Anywhere | None:
    """Return the request in quick form, or None if that form cannot express it."""
    request = plan.request
    if plan.missing or plan.unclear or request.hosts or request.not_hosts or request.properties or len(plan.tops) > 1:
        return None
    step, times, wrapped = plan.tops[0], 1, False
    while step.virtual and len(step.inside) == 1 and not step.inside[0].leaf:
        if step.level.exclusive or (wrapped and step.need > 1):
            return None
        times, wrapped, step = times * step.need, True, step.inside[0]
    level = step.level
    found: dict[str, int] = {}
    if level.exclusive or min(step.need, times) < 1 or structure.root == level.type:
        return None
    if not _add_leaves((step,) if step.leaf else step.inside, 1, structure, found):
        return None
    leaves = tuple(sorted(found.items(), key=lambda leaf: (leaf[1], leaf[0])))  # smaller ones fail sooner
    if step.leaf:
        return Anywhere(((level.type, 1),), found[level.type], 1)  # as much of it as there is
    if step.virtual:
        return Anywhere(leaves, times * step.need, step.need if wrapped else 1)
    if level.requires:
        return None
    return Quick(host=level.type, count=step.need, leaves=leaves, shared=level.shared, times=times, wrapped=wrapped)


def _add_leaves(inside: tuple[Step, ...], times: int, structure: Structure, leaves: dict[str, int]) -> bool:
    """Sum up the units per type of one slot; return False if counting is not sufficient."""
    for inner in inside:
        level = inner.level
        if level.exclusive or inner.need < 1:
            return False
        if not inner.leaf:
            if not inner.virtual or not _add_leaves(inner.inside, times * inner.need, structure, leaves):
                return False
            continue
        named = structure.units[level.type]
        one = measured(inner.mode, 1, next(iter(named))) if len(named) == 1 else None
        if level.type in leaves or level.type == structure.root or not structure.only_leaves(level.type):
            return False
        if not one or level.requires:
            return False
        leaves[level.type] = times * -(-inner.need // one)  # each vertex counts the same, so only their sum matters
    return True


def place_quick(quick: Quick, structure: Structure, taken: Column, unavailable: set[int], hints: Hints) -> Placement:
    """Do the same as `placement.place` for a request in quick form."""
    fill = _Fill(quick, structure, taken, unavailable)
    complete = True
    for _ in range(quick.times):
        before = dict(fill.chosen) if quick.wrapped else {}
        if not _fill(quick, structure, fill, hints):
            complete = False
            if quick.wrapped:
                fill.chosen = before
            break
    return Placement(fill.chosen, complete)


def _fill(quick: Quick, structure: Structure, fill: _Fill, hints: Hints) -> bool:
    """Take as many slots as fit; return True if all fit."""
    hosts = structure.of_type(quick.host)
    first = dry = hints.first(quick.leaves, quick.host)
    left, none_yet = quick.count, True
    for at in range(first, len(hosts)):
        host, placed = hosts[at], False
        while fill.slot(host):
            left, placed = left - 1, True
            if not left or not quick.shared:
                break
        if placed:
            none_yet = False
            if not left:
                break
        elif none_yet:
            dry = at + 1
    if dry > first:
        hints.ran_dry(quick.leaves, quick.host, dry)
    return not left


class _Fill:
    """The units that one job takes, slot by slot."""

    __slots__ = ("chosen", "find", "leaves", "structure", "taken", "unavailable")

    def __init__(self, quick: Quick, structure: Structure, taken: Column, unavailable: set[int]) -> None:
        self.structure = structure
        self.taken = taken
        self.unavailable = unavailable
        self.chosen: dict[int, int] = {}
        self.leaves = [(structure.leaves_of(type), type, units) for type, units in quick.leaves]
        self.find = taken.find if isinstance(taken, bytearray) else partial(_find, taken)

    def slot(self, host: int) -> bool:
        """Take one slot inside a host if it fits."""
        chosen, unavailable, find = self.chosen, self.unavailable, self.find
        found: dict[int, int] = {}
        for cached, type, left in self.leaves:
            inside = cached.get(host)
            if inside is None:
                inside = self.structure.leaves_in(host, type)
            if isinstance(inside, tuple):  # runs of vertices of one unit each: free or not
                for at, stop in inside:
                    while left and (at := find(0, at, stop)) >= 0:
                        if left >= MIN_RANGE and self._all_free(at, at + left, stop):
                            found.update(dict.fromkeys(range(at, at + left), 1))
                            left = 0
                        elif at not in chosen and at not in unavailable:
                            found[at] = 1
                            left -= 1
                        at += 1
            else:
                left = self._units(inside, left, found)
            if left:
                return False
        chosen.update(found)
        return True

    def _all_free(self, at: int, end: int, stop: int) -> bool:
        """Return True if these vertices can be taken as a range; False may also mean that it is unknown."""
        if end > stop or not isinstance(self.taken, bytearray) or self.taken.count(0, at, end) < end - at:
            return False
        row = range(at, end)
        return self.chosen.keys().isdisjoint(row) and self.unavailable.isdisjoint(row)

    def _units(self, inside: array[int], left: int, found: dict[int, int]) -> int:
        """Take units of vertices that have several; return how many are still missing."""
        sizes, taken, chosen = self.structure.graph.sizes, self.taken, self.chosen
        for i in inside:
            held = chosen.get(i, 0)
            free = sizes[i] - taken[i] - held
            if free > 0 and i not in self.unavailable:
                units = min(free, left)
                found[i] = held + units
                left -= units
                if not left:
                    break
        return left


def _find(column: array[int], value: int, start: int, stop: int) -> int:
    """Do the same as `bytearray.find` for columns of wider numbers."""
    try:
        return column.index(value, start, stop)
    except ValueError:
        return -1


def place_anywhere(
    request: Anywhere, structure: Structure, taken: Sequence[int], unavailable: set[int], hints: Hints
) -> Placement:
    """Do the same as `placement.place` for slots anywhere."""
    found: list[dict[int, int]] = []
    slots = request.slots
    for type, units in request.leaves:
        first = _first_free(type, slots * units, structure, taken, unavailable, hints) if slots else {}
        found.append(first)
        slots = min(slots, sum(first.values()) // units)
    if slots < request.slots:
        slots -= slots % request.together
    chosen: dict[int, int] = {}
    for (_, units), first in zip(request.leaves, found, strict=True):
        chosen.update(_some(first, slots * units))
    return Placement(chosen, slots == request.slots)


def _first_free(
    type: str, wanted: int, structure: Structure, taken: Sequence[int], unavailable: set[int], hints: Hints
) -> dict[int, int]:
    """Return the first free units of a type in the graph's order, at most `wanted`."""
    vertices, sizes = structure.of_type(type), structure.graph.sizes
    passed = hints.first(None, type)
    found: dict[int, int] = {}
    for at in range(passed, len(vertices)):
        i = vertices[at]
        free = sizes[i] - taken[i]
        if free > 0 and i not in unavailable:
            units = min(free, wanted)
            found[i] = units
            wanted -= units
            if not wanted:
                break
        elif not found:
            passed = at + 1
    hints.ran_dry(None, type, passed)
    return found


def _some(units: dict[int, int], wanted: int) -> dict[int, int]:
    """Return the first `wanted` units."""
    if sum(units.values()) == wanted:
        return units
    some: dict[int, int] = {}
    for i, free in units.items():
        if not wanted:
            break
        some[i] = min(free, wanted)
        wanted -= some[i]
    return some
