"""Find the reasons why a request does not fit a cluster, now or ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rainbow_sched.matching.explain.cluster_view import ClusterView, ValueReader, ViewClasses
from rainbow_sched.matching.fit.count import Counter
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.levels import BYTES, Step, measured
from rainbow_sched.matching.fit.parts import Part
from rainbow_sched.matching.fit.search import MAX_STEPS
from rainbow_sched.matching.memo import Memoized
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.model.changes import format_requirement, level_types
from rainbow_sched.model.reasons import (
    Competing,
    NoSuchType,
    NotAllowed,
    Reason,
    RequirementUnmet,
    TooFew,
    TooFewMeet,
    Undecided,
    When,
)
from rainbow_sched.model.request import Requirement

MAX_LISTED_VALUES = 3  # values that a sentence lists before "and N more"


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason shared by all clusters in one situation; with `requirement`, each cluster's values complete it."""

    reason: Reason
    requirement: Requirement | None = None
    type: str | None = None  # of the vertices that have to meet `requirement`; None: the cluster itself

    def complete(self, values: ValueReader, classes: ViewClasses) -> Reason:
        """Return the reason for one cluster."""
        if self.requirement is None or not isinstance(self.reason, RequirementUnmet):
            return self.reason
        existing = [str(value) for value in values.existing(self.requirement, classes.of(self.type))]
        listed = tuple(existing[:MAX_LISTED_VALUES])
        return replace(self.reason, found=listed, more=len(existing) - len(listed))


class ReasonFinder:
    """Find the reasons for one request in one view of one cluster."""

    def __init__(self, fitter: Fitter, view: ClusterView, root: Shape, when: When) -> None:
        self.fitter = fitter
        self.facts = fitter.facts
        self.view = view
        self.root = root
        self.when = when
        self.plan = fitter.plan(view.fold)
        self.counts = multiplicities(root)

    def find(self) -> tuple[Finding, ...]:
        """Return all reasons, the most important first."""
        findings = [
            *map(Finding, self._missing()),
            *self._cluster(),
            *map(Finding, self._allowed()),
            *self._requirements(),
        ]
        if self.plan.missing or self.plan.unclear:
            return tuple(findings) or (Finding(Undecided(steps=0, when=self.when)),)
        counter, part = self.fitter.view(self.view.fold, self.root)
        for top in self.plan.tops:
            if not counter.enough(part, top, 1):
                findings.extend(map(Finding, self._short(counter, part, top, "")))
        return tuple(findings) or (Finding(self._together()),)

    def _together(self) -> Reason:
        if self.fitter.fits(self.view.fold, self.root) is None:
            return Undecided(steps=MAX_STEPS, when=self.when)
        groups = tuple(sorted({top.path[0] for top in self.plan.tops}))
        types = tuple(sorted({step.level.type for step in self.plan.steps if step.leaf}))
        return Competing(groups=groups, types=types, when=self.when)

    def _missing(self) -> Iterator[Reason]:
        for step in self.plan.missing:
            types = tuple(sorted(self.view.fold.structure.units))
            yield NoSuchType(group=step.path[0], level=self._path(step), type=step.level.type, known=types)

    def _cluster(self) -> Iterator[Finding]:
        for requirement in self.fitter.request.requires:
            if not self.facts.holds(requirement, self.root.cls):
                yield Finding(self._unmet(requirement, -1, "", "cluster"), requirement)

    def _allowed(self) -> Iterator[Reason]:
        request, fold = self.fitter.request, self.view.fold
        if request.hosts:
            names = set(map(fold.structure.name, range(len(fold.graph))))
            missing = tuple(name for name in request.hosts if name not in names)
            if len(missing) == len(request.hosts):
                yield NotAllowed(what="hosts", asked=request.hosts, missing=missing, when=When.NEVER)
        carried = frozenset[str]().union(*(shape.properties for shape in self.counts))
        lacking = tuple(name for name in request.properties if not name.startswith("^") and name not in carried)
        if lacking:
            yield NotAllowed(what="properties", asked=request.properties, missing=lacking, when=When.NEVER)

    def _requirements(self) -> Iterator[Finding]:
        for step in self.plan.steps:
            if not step.level.requires or step in self.plan.missing:
                continue
            classes = frozenset(shape.cls for shape in self.counts if shape.type == step.level.type)
            for requirement in step.level.requires:
                if not any(self.facts.holds(requirement, cls) for cls in classes):
                    unmet = self._unmet(requirement, step.path[0], self._path(step), step.level.type)
                    yield Finding(unmet, requirement, step.level.type)

    def _unmet(self, requirement: Requirement, group: int, level: str, type: str) -> Reason:
        return RequirementUnmet(
            group=group,
            level=level,
            type=type,
            requirement=format_requirement(requirement),
            has_subsystem=any(subsystem.name == requirement.subsystem for subsystem in self.view.fold.subsystems),
            when=When.NEVER,
        )

    def _short(self, counter: Counter, part: Part, step: Step, inside: str, times: int = 1) -> Iterator[Reason]:
        """Find why there is too little of `step` inside `part`, which has to hold it `times` times."""
        if step.leaf:
            yield self._too_few(step, counter.units(part, step), inside, times=times)
            return
        if step.virtual:
            for inner in step.inside:
                if not counter.enough(part, inner, times * step.need):
                    yield from self._short(counter, part, inner, inside, times * step.need)
            return
        hosts = [shape for shape in self.counts if shape.type == step.level.type]
        if not step.level.shared and sum(self.counts[shape] for shape in hosts) < step.need:
            yield self._too_few(step, sum(self.counts[shape] for shape in hosts), inside)
            return
        blamed = list(self._blame(step, hosts))
        yield from blamed
        if not blamed:
            yield TooFewMeet(
                group=step.path[0],
                level=self._path(step),
                type=step.level.type,
                asked=step.need * times,
                best=counter.total(part, step),
                inside=inside,
                exclusive=step.level.exclusive,
                blocked=self._blocked(step) if self.when is When.NOT_NOW else "",
                when=self.when,
                slots=step.level.shared and not step.level.exclusive,
            )

    def _blame(self, step: Step, hosts: list[Shape]) -> Iterator[Reason]:
        """Find the leaves of which no single host has enough."""
        for inner in step.inside:
            if not inner.leaf:
                yield from self._blame(inner, [shape for shape in self.counts if shape.type == inner.level.type])
                continue
            units = {shape: self._units_inside(shape, inner) for shape in hosts}
            best = max(units.values(), default=0)
            if best < inner.need:
                holders = [shape for shape in hosts if units[shape] == best] if best else []
                yield self._too_few(inner, best, step.level.type, holders)

    @Memoized
    def _units_inside(self, shape: Shape, step: Step) -> int:
        """Return the free units of a leaf step's type inside a vertex, regardless of requirements."""
        return sum(self._units_of(kid, step) * count for kid, count in shape.kids)

    def _units_of(self, shape: Shape, step: Step) -> int:
        inside = self._units_inside(shape, step)
        if shape.type != step.level.type or not shape.allowed:
            return inside
        if shape.kids:
            return inside + (measured(step.mode, shape.size, shape.unit) or 0 if shape.whole else 0)
        return measured(step.mode, shape.free, shape.unit) or 0

    def _too_few(
        self, step: Step, best: int, inside: str, holders: list[Shape] | None = None, times: int = 1
    ) -> Reason:
        return TooFew(
            group=step.path[0],
            level=self._path(step),
            type=step.level.type,
            asked=step.need * times,
            best=best,
            unit="B" if step.mode == BYTES else step.level.unit,
            inside=inside,
            where=self.view.where(inside, self.root, holders or ()),
            exclusive=step.level.exclusive,
            blocked=self._blocked(step) if self.when is When.NOT_NOW else "",
            when=self.when,
        )

    def _blocked(self, step: Step) -> str:
        """Return why vertices of the step's type are not free, with counts."""
        busy = down = 0
        for shape, count in self.counts.items():
            if shape.type == step.level.type:
                busy += count * (not shape.clean)
                down += count * (shape.clean and not shape.whole)
        parts = [f"{busy} in use"] * bool(busy) + [f"{down} down or drained"] * bool(down)
        return ", ".join(parts)

    def _path(self, step: Step) -> str:
        return level_types(self.fitter.request, step.path)
