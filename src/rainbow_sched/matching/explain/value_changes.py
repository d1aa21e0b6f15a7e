"""Replace a dropped requirement by another value: for each cluster the first existing value that makes it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.facts import ValueReader, ViewClasses
from rainbow_sched.matching.explain.variants import Changes, Variants
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
    swaps: dict[tuple[int, type, Scalar], tuple[Change, int] | None] = field(default_factory=dict)  # by term and value
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
        self._said: dict[tuple[int, int, type, Scalar], tuple[ChangeKind, str, int] | None] = {}

    def settle(self, ideas: Suggestions, scene: ClusterView, root: Shape, classes: ViewClasses) -> tuple[Change, ...]:
        """Return the changes for one cluster, with existing values instead of dropped requirements."""
        left = ideas.left
        found: list[Change] = []
        for idea in ideas.found:
            best = idea.change
            for change, meeting in self._candidates(idea, classes):
                left -= 1
                if left < 0:
                    break
                if self._fits(idea, change, meeting, scene, root):
                    best = change
                    break
            found.append(idea.made(best))
        return tuple(found)

    def _candidates(self, idea: Suggestion, classes: ViewClasses) -> Iterator[tuple[Change, int]]:
        """Iterate over changes to other values, each with the facts that meet the changed requirement."""
        if idea.change.kind is not ChangeKind.DROP_REQUIREMENT:
            return
        request = self._variants.request(idea.before)
        path = idea.change.path
        level = at(request, path) if path else None
        asked = (level.requires if level else request.requires)[idea.change.requirement]
        there = classes.of(level.type if level else None)
        for position in range(len(asked.terms)):
            for value in self._values.found(asked, there, position)[:MAX_VALUES]:
                key = (position, type(value), value)
                if key not in idea.swaps:
                    idea.swaps[key] = self._swap(idea.change, asked, position, value)
                swap = idea.swaps[key]
                if swap is not None:
                    yield swap

    def _swap(self, drop: Change, asked: Requirement, position: int, value: Scalar) -> tuple[Change, int] | None:
        key = (id(asked), position, type(value), value)  # safe: the variants hold every requirement
        if key not in self._said:
            self._said[key] = self._meeting(asked, position, value)
        said = self._said[key]
        if said is None:
            return None
        kind, text, meeting = said
        return replace(drop, kind=kind, term=position, to=value, text=text), meeting

    def _meeting(self, asked: Requirement, position: int, value: Scalar) -> tuple[ChangeKind, str, int] | None:
        """Return the kind and text of a change to another value, and the facts that meet the changed requirement."""
        said = _said(asked.terms[position], value, asked)
        if said is None:
            return None
        alone = replace(self._variants.request(()), requires=(asked,))
        [changed] = Change(kind=said[0], term=position, to=value).apply(alone).requires
        return *said, self._facts.meeting(changed)

    def _fits(self, idea: Suggestion, change: Change, meeting: int, scene: ClusterView, root: Shape) -> bool:
        """Check if it fits. Within a situation this depends only on the vertices that meet the new value."""
        bits = self._facts.bits_of_class
        where = tuple([bool(bits(cls) & meeting) for _, cls in scene.fold.attached_classes()])
        known = idea.answers.get(where)
        if known is None:
            known = idea.answers[where] = self._variants.fits((*idea.before, change), scene, root)
        return known


def _said(term: Term, value: Scalar, requirement: Requirement) -> tuple[ChangeKind, str] | None:
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
