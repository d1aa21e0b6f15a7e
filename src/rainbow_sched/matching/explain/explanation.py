"""Explain one request on many clusters: reasons, changes that would help, and met requirements.

The analysis is done once per *situation*: equal graphs whose subsystems meet the request at the same
vertices. Only the values in reasons and changes are looked up for each cluster.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from rainbow_sched.matching.explain.cluster_classes import ClassKey, ClusterClasses
from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.explain.facts import ValueReader, ViewClasses
from rainbow_sched.matching.explain.reasons import Finding, ReasonFinder
from rainbow_sched.matching.explain.suggestions import find_changes
from rainbow_sched.matching.explain.value_changes import Suggestions, ValueChanges
from rainbow_sched.matching.explain.variants import Variants
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.changes import Change, format_requirement
from rainbow_sched.model.match import Explanation, Fit, Verdict
from rainbow_sched.model.reasons import ChangesNotSought, Met, MixedHosts, Reason, When, Where
from rainbow_sched.model.request import Request, Requirement

Findings: TypeAlias = tuple[tuple[Reason, ...], tuple[Change, ...]]


@dataclass(frozen=True, slots=True)
class FreeFit:
    """The slots and met requirements of a situation when everything is free."""

    slots: int
    met: tuple[Met, ...]


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
        self._free: dict[Hashable, FreeFit] = {}
        self._diagnoses: dict[Hashable, Diagnosis] = {}

    def explain_fit(
        self, cluster: str, fit: Fit, view: ClusterView, slots: int | None = None, mixed: tuple[MixedHosts, ...] = ()
    ) -> Explanation:
        """Explain a known fit on one cluster; count `slots` that fit now if not given.

        `mixed`: hosts that the request cannot use because the manager cannot select parts of them.
        """
        key = self._classes.key(view.fold)
        free = self._when_free(key, view)
        now = free.slots if slots is None else slots
        if slots is None and view.now is not view.ever:
            now = self._variants.fitter(()).slots(view.fold, view.now)
        return self._explained(Verdict(cluster, fit, now, free.slots), view, key, free.met, mixed)

    def explain(self, verdict: Verdict, view: ClusterView, mixed: tuple[MixedHosts, ...] = ()) -> Explanation:
        """Explain a known verdict."""
        key = self._classes.key(view.fold)
        return self._explained(verdict, view, key, self._when_free(key, view).met, mixed)

    def _explained(
        self,
        verdict: Verdict,
        view: ClusterView,
        key: ClassKey | None,
        met: tuple[Met, ...],
        mixed: tuple[MixedHosts, ...],
    ) -> Explanation:
        fit = verdict.fit
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

    def _when_free(self, key: ClassKey | None, view: ClusterView) -> FreeFit:
        cached = self._free.get(key.situation) if key else None
        if cached is None:
            slots = self._variants.fitter(()).slots(view.fold, view.ever)
            cached = FreeFit(slots, tuple(dict.fromkeys(self._met(view))))
            if key:
                self._free[key.situation] = cached
        return cached

    def _met(self, view: ClusterView) -> list[Met]:
        """Return the vertices that meet each requirement."""
        met: list[Met] = []
        for requirement in self.request.requires:
            if self.facts.holds(requirement, view.ever.cls):
                met.append(Met("cluster", format_requirement(requirement), Where((view.fold.structure.name(0),))))
        for step in self._variants.fitter(()).plan(view.fold).steps:
            for requirement in step.level.requires:
                where = self._holding(view, step.level.type, requirement)
                if where.names:
                    met.append(Met(step.level.type, format_requirement(requirement), where))
        return met

    def _holding(self, view: ClusterView, type: str, requirement: Requirement) -> Where:
        """Return the vertices of a type that meet a requirement."""
        holding = [
            shape
            for shape in multiplicities(view.fold.root)
            if shape.type == type and self.facts.holds(requirement, shape.cls)
        ]
        return view.where(type, view.fold.root, holding)
