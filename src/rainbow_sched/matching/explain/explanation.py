"""Explain one request on many clusters: reasons, changes that would help, and met requirements.

The analysis is done once per *situation*: equal graphs whose subsystems meet the request at the same
vertices. Only the values in reasons and changes are looked up for each cluster.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from rainbow_sched.matching.explain.cluster_view import ClusterView, ValueReader, ViewClasses
from rainbow_sched.matching.explain.reasons import Finding, ReasonFinder
from rainbow_sched.matching.explain.suggestions import Suggestions, ValueChanges, Variants, find_changes
from rainbow_sched.matching.memo import Memoized
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.matching.structure.values import union
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.changes import Change, format_requirement
from rainbow_sched.model.match import Explanation, Fit, Verdict
from rainbow_sched.model.reasons import ChangesNotSought, Met, MixedHosts, Reason, When, Where
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary

Findings: TypeAlias = tuple[tuple[Reason, ...], tuple[Change, ...]]


class ClassKey(NamedTuple):
    """Clusters with equal `situation` share the analysis; with equal `values` they share the whole explanation."""

    situation: Hashable
    values: Hashable


class ClusterClasses:
    """Classify clusters by everything that an explanation of one request can mention."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self._facts = facts
        self._named = bool(request.hosts or request.not_hosts)
        requirements = [*request.requires, *RequestSummary.of(request).requirements]
        self._subsystems = frozenset(each.subsystem for each in requirements)
        self._meeting = [facts.meeting(each) for each in requirements]
        self._about = union(map(facts.bits_of_subsystem, self._subsystems))  # facts of the required subsystems

    def key(self, fold: Fold) -> ClassKey | None:
        """Return the class of a cluster; None if the request names hosts, as every cluster then differs."""
        if self._named:
            return None
        if not self._meeting:
            return ClassKey(fold.structure, None)
        present = tuple([subsystem.name for subsystem in fold.subsystems if subsystem.name in self._subsystems])
        pattern: list[int] = []
        values: list[int] = []
        for vertex, cls in fold.attached.items():
            met, about = self._read(cls)
            pattern += (vertex, met)
            values.append(about)
        return ClassKey((fold.structure, present, tuple(pattern)), tuple(values))

    @Memoized
    def _read(self, cls: int) -> tuple[int, int]:
        """Return the requirements that a class of facts meets and its facts about them, as bit sets."""
        facts = self._facts.classes[cls]
        met = sum(1 << number for number, meeting in enumerate(self._meeting) if facts & meeting)
        return met, facts & self._about


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a request does not fit in a situation, and what would help."""

    reasons: tuple[Finding, ...]
    suggestions: Suggestions
    completed: dict[Hashable, Findings] = field(default_factory=dict)  # by the values in a cluster


class Explainer:
    """Explain a request on one cluster after the other; clusters in one situation share the analysis."""

    def __init__(self, request: Request, facts: Facts, rules: NodeRules | None = None) -> None:
        """`rules`: the node rules of these clusters; None to ignore them."""
        self.request = request
        self.facts = facts
        self._variants = Variants(request, facts, rules)
        self._unbound = self._variants if rules is None else Variants(request, facts)
        self._classes = ClusterClasses(request, facts)
        self._values = ValueReader(facts)
        self._value_changes = ValueChanges(self._variants, self._values)
        self._free: dict[Hashable, tuple[int, tuple[Met, ...]]] = {}
        self._diagnoses: dict[Hashable, Diagnosis] = {}

    def explain(
        self, cluster: str, fit: Fit, view: ClusterView, slots: int | None = None, mixed: tuple[MixedHosts, ...] = ()
    ) -> Explanation:
        """Explain a known fit on one cluster; count `slots` that fit now if not given.

        `mixed`: hosts that the request cannot use because the manager cannot select parts of them.
        """
        key = self._classes.key(view.fold)
        slots_ever, met = self._when_free(key, view)
        if slots is None:
            slots = slots_ever if view.now is view.ever else self._variants.fitter(()).slots(view.fold, view.now)
        verdict = Verdict(cluster, fit, slots, slots_ever)
        if mixed and fit is Fit.NEVER and self._unbound.fitter(()).fits(view.fold, view.ever):
            _, changes = self._complete(self._diagnose(fit, view, view.ever), view, view.ever)
            return Explanation(verdict, mixed, changes, met)
        if fit is Fit.NOW:
            return Explanation(verdict, met=met)
        root = view.now if fit is Fit.LATER else view.ever
        if key is None or root is not view.ever:
            why = self._complete(self._diagnose(fit, view, root), view, root)
        else:
            diagnosis = self._diagnoses.get((fit, key.situation))
            if diagnosis is None:
                diagnosis = self._diagnoses[fit, key.situation] = self._diagnose(fit, view, root)
            cached = diagnosis.completed.get(key.values)
            why = cached or diagnosis.completed.setdefault(key.values, self._complete(diagnosis, view, root))
        return Explanation(verdict, *why, met)

    def _complete(self, diagnosis: Diagnosis, view: ClusterView, root: Shape) -> Findings:
        """Return the reasons and changes with the values in one cluster."""
        classes = ViewClasses(root)
        reasons = dict.fromkeys([finding.complete(self._values, classes) for finding in diagnosis.reasons])
        return tuple(reasons), self._value_changes.settle(diagnosis.suggestions, view, root, classes)

    def _diagnose(self, fit: Fit, view: ClusterView, root: Shape) -> Diagnosis:
        when = When.NOT_NOW if fit is Fit.LATER else When.NEVER
        variants = self._unbound if fit is Fit.NEVER else self._variants
        reasons = ReasonFinder(variants.fitter(()), view, root, when).find()
        suggestions = find_changes(self._variants, view, root)
        if suggestions.too_large:
            reasons += (Finding(ChangesNotSought(levels=self._variants.levels, when=when)),)
        return Diagnosis(reasons, suggestions)

    def _when_free(self, key: ClassKey | None, view: ClusterView) -> tuple[int, tuple[Met, ...]]:
        """Return the slots and the met requirements when everything is free."""
        cached = self._free.get(key.situation) if key else None
        if cached is None:
            slots = self._variants.fitter(()).slots(view.fold, view.ever)
            cached = (slots, tuple(dict.fromkeys(self._met(view))))
            if key:
                self._free[key.situation] = cached
        return cached

    def _met(self, view: ClusterView) -> Iterator[Met]:
        """Iterate over the requirements that vertices meet, with the vertices."""
        holds, root = self.facts.holds, view.fold.root
        for requirement in self.request.requires:
            if holds(requirement, view.ever.cls):
                yield Met("cluster", format_requirement(requirement), Where((view.fold.structure.name(0),)))
        for step in self._variants.fitter(()).plan(view.fold).steps:
            type = step.level.type
            for requirement in step.level.requires:
                shapes = [each for each in multiplicities(root) if each.type == type and holds(requirement, each.cls)]
                where = view.where(type, root, shapes)
                if where.names:
                    yield Met(type, format_requirement(requirement), where)
