"""Place slots that may be anywhere in a cluster: take the first free units of each type.

Slots of plain leaves are independent, so only the sums count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rainbow_sched.matching.fit.hints import Hints
from rainbow_sched.matching.fit.placement import Placement
from rainbow_sched.matching.structure.hierarchy import Structure


@dataclass(frozen=True, slots=True)
class Anywhere:
    """`slots` with the given units per type; if not all fit, a multiple of `together` is placed."""

    leaves: tuple[tuple[str, int], ...]
    slots: int
    together: int


def place_anywhere(
    asked: Anywhere, structure: Structure, taken: Sequence[int], unavailable: set[int], hints: Hints
) -> Placement:
    """Do the same as `placement.place` for slots anywhere."""
    found: list[dict[int, int]] = []
    slots = asked.slots
    for type, units in asked.leaves:
        first = _first_free(type, slots * units, structure, taken, unavailable, hints) if slots else {}
        found.append(first)
        slots = min(slots, sum(first.values()) // units)
    if slots < asked.slots:
        slots -= slots % asked.together
    mine: dict[int, int] = {}
    for (_, units), first in zip(asked.leaves, found, strict=True):
        mine.update(_some(first, slots * units))
    return Placement(mine, slots == asked.slots)


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
