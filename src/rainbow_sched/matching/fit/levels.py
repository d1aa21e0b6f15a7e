"""A request prepared for one kind of cluster: numbered levels, skipped abstractions, resolved units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Level, Request
from rainbow_sched.model.request_summary import RequestSummary

RAW, BYTES = "", "B"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One level of the request, compared by identity. Its bit in masks is `1 << number`."""

    number: int
    path: tuple[int, ...]  # group, then the level's position at each depth
    level: Level
    inside: tuple[Step, ...]
    need: int  # of a leaf: the amount in `mode`; else the count
    mode: str  # of a leaf: RAW sizes, BYTES, or a unit that the vertices must have
    virtual: bool  # a skipped abstraction: the vertex above takes its place
    leaves: int  # mask of all leaf steps at or below it

    @property
    def bit(self) -> int:
        return 1 << self.number

    @property
    def leaf(self) -> bool:
        """Return True if the step takes units, False if it contains other steps."""
        return not self.inside

    def walk(self) -> Iterable[Step]:
        """Iterate over this step and all inside."""
        yield self
        for step in self.inside:
            yield from step.walk()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """All steps of a request for one kind of cluster; compared by identity."""

    request: Request
    tops: tuple[Step, ...]
    steps: tuple[Step, ...]
    by_type: Mapping[str, tuple[Step, ...]]  # without virtual steps
    missing: tuple[Step, ...]  # steps whose type the cluster lacks
    unclear: str = ""  # why the units cannot be resolved; the answer is then unknown


class Planner:
    """Build a request's plans, one for each combination of types and units."""

    def __init__(self, request: Request, summary: RequestSummary | None = None) -> None:
        """`summary`: of this request, if it is known."""
        self.request = request
        self.summary = summary or RequestSummary.of(request)
        self._types = sorted(self.summary.totals)
        self._plans: dict[tuple[object, ...], Plan] = {}

    def plan(self, units: Mapping[str, set[str]]) -> Plan:
        """Return the plan for clusters whose types have these units."""
        key = tuple(frozenset(units[type]) if type in units else None for type in self._types)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _PlanBuilder(self.request, self.summary.byte_types, units).build()
        return plan


class _PlanBuilder:
    def __init__(self, request: Request, byte_types: Set[str], units: Mapping[str, set[str]]) -> None:
        self.request = request
        self.byte_types = byte_types
        self.units = units
        self.count = 0
        self.unclear = ""

    def build(self) -> Plan:
        tops = tuple(
            self.step(level, (g, i))
            for g, group in enumerate(self.request.groups)
            for i, level in enumerate(group.levels)
        )
        steps = tuple(step for top in tops for step in top.walk())
        by_type: dict[str, tuple[Step, ...]] = {}
        for step in steps:
            if not step.virtual:
                by_type[step.level.type] = (*by_type.get(step.level.type, ()), step)
        missing = tuple(step for step in steps if not step.virtual and step.level.type not in self.units)
        return Plan(
            request=self.request, tops=tops, steps=steps, by_type=by_type, missing=missing, unclear=self.unclear
        )

    def step(self, level: Level, path: tuple[int, ...]) -> Step:
        number = self.count
        self.count += 1
        inside = tuple(self.step(inner, (*path, i)) for i, inner in enumerate(level.inside))
        need, mode = (level.count.min, RAW) if inside else self.amount(level)
        lacking = level.type not in self.units
        return Step(
            number=number,
            path=path,
            level=level,
            inside=inside,
            need=need,
            mode=mode,
            virtual=bool(inside) and level.abstract and lacking and not level.requires,
            leaves=sum(inner.leaves for inner in inside) if inside else 1 << number,
        )

    def amount(self, level: Level) -> tuple[int, str]:
        scale = factor(level.unit) if level.unit else None
        if scale is not None:
            return level.count.min * scale, BYTES
        if level.unit:
            return level.count.min, level.unit
        if level.type in self.byte_types:  # another level counts the same vertices in bytes
            scales = {factor(unit) if unit else None for unit in self.units.get(level.type, ())}
            if len(scales) == 1 and (only := scales.pop()) is not None:
                return level.count.min * only, BYTES
            self.unclear = f"{level.type} is asked for with and without a unit, and the cluster mixes units"
        return level.count.min, RAW


def measured(mode: str, units: int, unit: str) -> int | None:
    """Return `units` of a vertex with this unit as a leaf step with `mode` counts them; None if it cannot."""
    if mode == RAW:
        return units
    if mode == BYTES:
        scale = factor(unit) if unit else None
        return None if scale is None else units * scale
    return units if unit == mode else None
