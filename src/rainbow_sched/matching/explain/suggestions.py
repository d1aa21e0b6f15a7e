"""Find the smallest changes that would make a request fit; matching checks each candidate.

The order is by preference: a smaller count, another existing value, a wider range, then dropping
a part of the request. One check excludes many candidates: if a single slot, or the request without the requirement,
does not fit, nothing in between does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.facts import ViewClasses
from rainbow_sched.matching.explain.value_changes import Suggestion, Suggestions
from rainbow_sched.matching.explain.variants import Changes, Variants
from rainbow_sched.matching.fit.levels import Step
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.changes import Change, ChangeKind, Path, at, format_count, format_requirement
from rainbow_sched.model.request import Level, Request, Requirement

MAX_CHANGES = 4
MAX_FIRST_CHANGES = 3  # changes that are tried as the first of two
MAX_CHECKS = 60  # per cluster
MAX_CHECKED_LEVELS = 2_000  # sum over all checks
MIN_CHECKS = 5  # below this no changes are sought


def find_changes(variants: Variants, view: ClusterView, root: Shape) -> Suggestions:
    """Return a few changes, each of which makes the request fit, alone or with one other change."""
    tries = min(MAX_CHECKS, min(MAX_CHECKED_LEVELS, variants.work) // variants.levels)
    if tries < MIN_CHECKS:
        return Suggestions(too_large=True)
    finder = _Finder(variants, view, root)
    finder.left = tries
    suggestions = tuple(Suggestion(change) for change in islice(finder.helping(), MAX_CHANGES))
    suggestions = suggestions or _in_two_steps(finder)
    return Suggestions(suggestions, finder.left, too_large=not suggestions and finder.left < 0)


def _in_two_steps(finder: _Finder) -> tuple[Suggestion, ...]:
    """Return one pair of changes that makes the request fit, if there is one among the likely pairs."""
    firsts = [change for change in finder.drops() if not finder.unmet or finder.is_unmet(change)]
    for first in firsts[:MAX_FIRST_CHANGES]:
        after = _Finder(finder.variants, finder.view, finder.root, (first,))
        after.left = finder.left
        second = next(after.helping(), None)
        finder.left = after.left
        if second is not None:
            return (Suggestion(second, (first,)),)
    return ()


class _Finder:
    """Find changes that help a request to which some changes were already applied."""

    def __init__(self, variants: Variants, view: ClusterView, root: Shape, before: Changes = ()) -> None:
        self.variants = variants
        self.view = view
        self.root = root
        self.classes = ViewClasses(root)
        self.before = before
        self.left = 0  # remaining checks
        self.request = variants.request(before)
        self.plan = variants.fitter(before).plan(view.fold)
        self.unmet = frozenset(self._unmet())

    def fits(self, change: Change) -> bool:
        self.left -= 1
        return self.left >= 0 and self.variants.fits((*self.before, change), self.view, self.root)

    def helping(self) -> Iterator[Change]:
        """Iterate over the changes that make the request fit, the preferred ones first."""
        if not (self.plan.missing or self.plan.unclear or self.unmet):
            for step in self.plan.steps:
                yield from self._fewer(step)
        yield from [change for change in self.drops() if self._may_help(change) and self.fits(change)]

    def drops(self) -> Iterator[Change]:
        """Iterate over what can be dropped: requirements, exclusive, hosts and properties, levels."""
        for path, requirements in self._requirements():
            for number, requirement in enumerate(requirements):
                text = f"drop {format_requirement(requirement)}"
                yield Change(kind=ChangeKind.DROP_REQUIREMENT, path=path, requirement=number, text=text)
        for step in self.plan.steps:
            if step.level.exclusive:
                yield Change(
                    kind=ChangeKind.DROP_EXCLUSIVE, path=step.path, text=f"drop exclusive on {step.level.type}"
                )
        if self.request.hosts:
            yield Change(kind=ChangeKind.DROP_HOSTS, text="drop the list of hosts")
        if self.request.not_hosts:
            yield Change(kind=ChangeKind.DROP_NOT_HOSTS, text="drop the list of excluded hosts")
        if self.request.properties:
            text = f"drop the properties {', '.join(self.request.properties)}"
            yield Change(kind=ChangeKind.DROP_PROPERTIES, text=text)
        for step in self.plan.steps:
            if len(_siblings(self.request, step.path)) > 1:
                text = f"drop {step.level.type} {step.level.count.min}"
                yield Change(kind=ChangeKind.DROP_LEVEL, path=step.path, text=text)

    def _unmet(self) -> Iterator[tuple[Path, int]]:
        """Find the requirements that no vertex of their level meets; no other change helps while they remain."""
        facts = self.variants.facts
        for path, requirements in self._requirements():
            classes = self.classes.of(at(self.request, path).type if path else None)
            for number, requirement in enumerate(requirements):
                if not any(facts.holds(requirement, cls) for cls in classes):
                    yield path, number

    def is_unmet(self, change: Change) -> bool:
        """Return True if the change drops a requirement that nothing meets."""
        return change.kind is ChangeKind.DROP_REQUIREMENT and (change.path, change.requirement) in self.unmet

    def _may_help(self, change: Change) -> bool:
        if change.kind is ChangeKind.DROP_LEVEL:
            return all(path[: len(change.path)] == change.path for path, _ in self.unmet)
        return not self.unmet or (
            change.kind is ChangeKind.DROP_REQUIREMENT and self.unmet == {(change.path, change.requirement)}
        )

    def _requirements(self) -> Iterator[tuple[Path, tuple[Requirement, ...]]]:
        for step in self.plan.steps:
            if step.level.requires:
                yield step.path, step.level.requires
        if self.request.requires:
            yield (), self.request.requires

    def _fewer(self, step: Step) -> Iterator[Change]:
        """Find the largest smaller count that fits."""
        most = step.level.count.min - 1
        if most < 1 or not self.fits(_count(step, 1)):
            return
        least = 1
        if len(step.path) == 2 and step.need == step.level.count.min:
            counter, part = self.variants.fitter(self.before).view(self.view.fold, self.root)
            likely = counter.total(part, step)
            if least < likely <= most and self.fits(_count(step, likely)):
                least = likely
                most = likely if not self.fits(_count(step, min(likely + 1, most))) else most
        while least < most:
            middle = (least + most + 1) // 2
            if self.fits(_count(step, middle)):
                least = middle
            else:
                most = middle - 1
        yield _count(step, least)


def _count(step: Step, to: int) -> Change:
    return Change(kind=ChangeKind.COUNT, path=step.path, to=to, text=format_count(step.level, step.path, to))


def _siblings(request: Request, path: Path) -> tuple[Level, ...]:
    return request.groups[path[0]].levels if len(path) == 2 else at(request, path[:-1]).inside
