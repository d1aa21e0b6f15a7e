"""Replace a dropped requirement by another value: for each cluster the first existing value that makes it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.facts import ValueReader, ViewClasses
from rainbow_sched.matching.explain.variants import Changes, Variants
from rainbow_sched.matching.structure.facts import value_types
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.changes import Change, ChangeKind, at
from rainbow_sched.model.request import Equals, Requirement, Runs, Scalar, Term
from rainbow_sched.model.versions import at_most

MAX_VALUES = 6  # other values tried for one requirement


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
        where = tuple([bool(classes[cls] & meeting) for _, cls in view.fold.attached_classes()])
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
