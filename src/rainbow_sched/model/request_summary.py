"""What a request asks for in all, found in one pass over its levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.model.binding import HOST
from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Request, Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSummary:
    """Sums over all levels of a request; a range counts as its minimum."""

    levels: int
    totals: Mapping[str, int]  # by type: how many are needed over all slots
    leaf_totals: Mapping[str, int]  # the same of leaves alone
    byte_types: frozenset[str]  # types of which some leaf is counted in bytes
    requirements: tuple[Requirement, ...]  # of all levels, from the top; not those of the cluster as a whole
    requires_inside: bool  # a level other than hosts has requirements; only some parts of a host may meet them
    may_bind: bool  # a list of hosts may have to express some constraints; see `model/binding.py`

    @classmethod
    def of(cls, request: Request) -> RequestSummary:
        """Sum up a request."""
        levels, requires_inside = 0, False
        totals, leaf_totals = Counter[str](), Counter[str]()
        byte_types: set[str] = set()
        requirements: list[Requirement] = []
        for level, count in request.walk_counted():
            levels += 1
            totals[level.type] += count
            if not level.inside:
                leaf_totals[level.type] += count
                if level.unit and factor(level.unit) is not None:
                    byte_types.add(level.type)
            requirements += level.requires
            requires_inside = requires_inside or bool(level.requires and level.type != HOST)
        return cls(
            levels=levels,
            totals=totals,
            leaf_totals=leaf_totals,
            byte_types=frozenset(byte_types),
            requirements=tuple(requirements),
            requires_inside=requires_inside,
            may_bind=bool(requirements or request.hosts or request.not_hosts or request.properties),
        )
