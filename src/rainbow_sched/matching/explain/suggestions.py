"""Find the smallest changes that would make a request fit; matching checks each candidate.

The order is by preference: a smaller count, another existing value, a wider range, then dropping
a part of the request. One check excludes many candidates: if a single slot, or the request without the requirement,
does not fit, nothing in between does. The changes are found once per situation; in place of a dropped requirement,
`ValueChanges` then finds for each cluster the first existing value that makes the request fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from rainbow_sched.matching.explain.cluster_view import ClusterView, ValueReader, ViewClasses
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.levels import Step
from rainbow_sched.matching.fit.search import MAX_STEPS, StepBudget
from rainbow_sched.matching.memo import Memoized
from rainbow_sched.matching.structure.facts import Facts, value_types
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.changes import Change, ChangeKind, Path, at, format_count, format_requirement
from rainbow_sched.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term
from rainbow_sched.model.request_summary import RequestSummary
from rainbow_sched.model.versions import at_most

Changes = tuple[Change, ...]
MAX_LEVELS = 100_000  # sum over all changed requests matched for one explanation: about two seconds
MAX_CHANGES = 4  # suggestions for one cluster, so that an explanation stays short
MAX_FIRST_CHANGES = 3  # changes that are tried as the first of two
MAX_CHECKS = 60  # per cluster; bounds the time of an explanation
MAX_CHECKED_LEVELS = 2_000  # sum over all checks; bounds the time of an explanation
MIN_CHECKS = 5  # below this no changes are sought
MAX_VALUES = 6  # other values tried for one requirement


class Variants:
    """The changed forms of one request, by their changes."""

    def __init__(self, request: Request, facts: Facts, rules: NodeRules | None = None) -> None:
        """`rules`: as in `Fitter`."""
        self.facts = facts
        self._rules = rules
        self._request = request
        self._budget = StepBudget()
        self.levels = RequestSummary.of(request).levels
        self.work = MAX_LEVELS

    @Memoized
    def request(self, changes: Changes) -> Request:
        """Return the request with these changes applied."""
        return changes[-1].apply(self.request(changes[:-1])) if changes else self._request

    @Memoized
    def fitter(self, changes: Changes) -> Fitter:
        """Return the matcher of the request with these changes applied."""
        steps = MAX_STEPS if not changes else MAX_STEPS // 8  # changes that are slow to verify are not suggested
        return Fitter(self.request(changes), self.facts, steps, self._budget, self._rules)

    def fits(self, changes: Changes, view: ClusterView, root: Shape) -> bool:
        """Return True if the changed request fits the view of a cluster."""
        self.work -= self.levels
        before, after = self.request(()), self.request(changes)
        if (after.hosts, after.not_hosts) != (before.hosts, before.not_hosts):
            if after.hosts or after.not_hosts:
                return False  # the view was made for the request's own hosts
            root = view.fold.root if root is view.ever else view.shape_of(0)
        return bool(self.fitter(changes).fits(view.fold, root))


@dataclass(slots=True, eq=False)
class Suggestion:
    """A change that helps in a situation; instead of dropping a requirement, another value may help, too."""

    change: Change
    before: Changes = ()  # the change to apply first, if one is not enough
    values: dict[tuple[int, type, Scalar], tuple[Change, int] | None] = field(default_factory=dict)  # by term and value
    pairs: dict[Change, Change] = field(default_factory=dict)  # both changes as one, by the second
    answers: dict[tuple[bool, ...], bool] = field(default_factory=dict)  # by the vertices that meet the other value

    def made(self, change: Change) -> Change:
        """Return `change` combined with the one to apply first."""
        if not self.before:
            return change
        if change not in self.pairs:
            self.pairs[change] = replace(self.before[0], then=change)
        return self.pairs[change]


@dataclass(frozen=True, slots=True)
class Suggestions:
    """All changes that help in a situation, and the remaining checks per cluster."""

    found: tuple[Suggestion, ...] = ()
    left: int = 0
    too_large: bool = False  # nothing was found, and not everything was tried


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


class ValueChanges:
    """Complete the suggestions of a situation for each of its clusters."""

    def __init__(self, variants: Variants, values: ValueReader) -> None:
        self._variants = variants
        self._values = values
        self._facts = variants.facts
        self._described: dict[object, tuple[ChangeKind, str, int] | None] = {}  # by requirement, term and value

    def settle(
        self, suggestions: Suggestions, view: ClusterView, root: Shape, classes: ViewClasses
    ) -> tuple[Change, ...]:
        """Return the changes for one cluster, with existing values instead of dropped requirements."""
        left = suggestions.left
        changes: list[Change] = []
        for suggestion in suggestions.found:
            best = suggestion.change
            for change, meeting in self._candidates(suggestion, classes):
                left -= 1
                if left < 0:
                    break
                if self._fits(suggestion, change, meeting, view, root):
                    best = change
                    break
            changes.append(suggestion.made(best))
        return tuple(changes)

    def _candidates(self, suggestion: Suggestion, classes: ViewClasses) -> Iterator[tuple[Change, int]]:
        """Iterate over changes to other values, each with the facts that meet the changed requirement."""
        if suggestion.change.kind is not ChangeKind.DROP_REQUIREMENT:
            return
        request = self._variants.request(suggestion.before)
        path = suggestion.change.path
        level = at(request, path) if path else None
        requirement = (level.requires if level else request.requires)[suggestion.change.requirement]
        there = classes.of(level.type if level else None)
        for position in range(len(requirement.terms)):
            for value in self._values.existing(requirement, there, position)[:MAX_VALUES]:
                key = (position, type(value), value)
                if key not in suggestion.values:
                    suggestion.values[key] = self._to_value(suggestion.change, requirement, position, value)
                candidate = suggestion.values[key]
                if candidate is not None:
                    yield candidate

    def _to_value(
        self, drop: Change, requirement: Requirement, position: int, value: Scalar
    ) -> tuple[Change, int] | None:
        """Return a change to another value, and the facts that meet the changed requirement."""
        key = (requirement, value_types((requirement,)), position, type(value), value)
        if key not in self._described:
            self._described[key] = self._describe(requirement, position, value)
        described = self._described[key]
        if described is None:
            return None
        kind, text, meeting = described
        return replace(drop, kind=kind, term=position, to=value, text=text), meeting

    def _describe(self, requirement: Requirement, position: int, value: Scalar) -> tuple[ChangeKind, str, int] | None:
        """Return the kind and text of a change to another value, and the facts that meet the changed requirement."""
        described = _describe(requirement.terms[position], value, requirement)
        if described is None:
            return None
        alone = replace(self._variants.request(()), requires=(requirement,))
        [changed] = Change(kind=described[0], term=position, to=value).apply(alone).requires
        return *described, self._facts.meeting(changed)

    def _fits(self, suggestion: Suggestion, change: Change, meeting: int, view: ClusterView, root: Shape) -> bool:
        """Check if it fits. Within a situation this depends only on the vertices that meet the new value."""
        classes = self._facts.classes
        where = tuple([bool(classes[cls] & meeting) for cls in view.fold.attached.values()])
        fits = suggestion.answers.get(where)
        if fits is None:
            fits = suggestion.answers[where] = self._variants.fits((*suggestion.before, change), view, root)
        return fits


def _describe(term: Term, value: Scalar, requirement: Requirement) -> tuple[ChangeKind, str] | None:
    """Return the kind and the text of a change to another value; None if the value cannot take the term's place."""
    about = f"{requirement.subsystem} {term.field}"
    if isinstance(term, Equals):
        return ChangeKind.VALUE, f"{about} {value} instead of {term.value}"
    if isinstance(term, Runs):
        return ChangeKind.VALUE, f"{about} {value} instead of {term.target}"
    if any(not (at_most(bound, value) or at_most(value, bound)) for bound in (term.min, term.max) if bound is not None):
        return None  # not comparable with the bounds
    if term.min is not None and not at_most(term.min, value):
        return ChangeKind.BOUND, f"{about} >= {value} instead of {term.min}"
    if term.max is not None and not at_most(value, term.max):
        return ChangeKind.BOUND, f"{about} <= {value} instead of {term.max}"
    return None
