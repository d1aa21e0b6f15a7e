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
    ideas: Suggestions
    completed: dict[Hashable, Findings] = field(default_factory=dict)  # by the values in a cluster


class Explainer:
    """Explain a request on one cluster after the other; clusters in one situation share the analysis."""

    def __init__(self, request: Request, facts: Facts, rules: NodeRules | None = None) -> None:
        """`rules`: the node rules of these clusters; None to ignore them."""
        self.request = request
        self.facts = facts
        self._variants = Variants(request, facts, rules)
        self._unbound = self._variants if rules is None else Variants(request, facts)
        self._alike = ClusterClasses(request, facts)
        self._values = ValueReader(facts)
        self._swaps = ValueChanges(self._variants, self._values)
        self._free: dict[Hashable, FreeFit] = {}
        self._cases: dict[Hashable, Diagnosis] = {}

    def explain_fit(
        self, cluster: str, fit: Fit, scene: ClusterView, slots: int | None = None, mixed: tuple[MixedHosts, ...] = ()
    ) -> Explanation:
        """Explain a known fit on one cluster; count `slots` that fit now if not given.

        `mixed`: hosts that the request cannot use because the manager cannot select parts of them.
        """
        key = self._alike.key(scene.fold)
        free = self._when_free(key, scene)
        now = free.slots if slots is None else slots
        if slots is None and scene.now is not scene.ever:
            now = self._variants.fitter(()).slots(scene.fold, scene.now)
        return self._explained(Verdict(cluster, fit, now, free.slots), scene, key, free.met, mixed)

    def explain(self, verdict: Verdict, scene: ClusterView, mixed: tuple[MixedHosts, ...] = ()) -> Explanation:
        """Explain a known verdict."""
        key = self._alike.key(scene.fold)
        return self._explained(verdict, scene, key, self._when_free(key, scene).met, mixed)

    def _explained(
        self,
        verdict: Verdict,
        scene: ClusterView,
        key: ClassKey | None,
        met: tuple[Met, ...],
        mixed: tuple[MixedHosts, ...],
    ) -> Explanation:
        fit = verdict.fit
        if mixed and fit is Fit.NEVER and self._unbound.fitter(()).answer(scene.fold, scene.ever).fits:
            _, changes = self._complete(self._case(fit, scene, scene.ever), scene, scene.ever)
            return Explanation(verdict, mixed, changes, met)
        if fit is Fit.NOW:
            return Explanation(verdict, met=met)
        root = scene.now if fit is Fit.LATER else scene.ever
        if key is None or root is not scene.ever:
            why = self._complete(self._case(fit, scene, root), scene, root)
        else:
            case = self._cases.get((fit, key.situation))
            if case is None:
                case = self._cases[fit, key.situation] = self._case(fit, scene, root)
            known = case.completed.get(key.values)
            why = known or case.completed.setdefault(key.values, self._complete(case, scene, root))
        return Explanation(verdict, *why, met)

    def _complete(self, case: Diagnosis, scene: ClusterView, root: Shape) -> Findings:
        """Return the reasons and changes with the values in one cluster."""
        classes = ViewClasses(root)
        reasons = dict.fromkeys([found.complete(self._values, classes) for found in case.reasons])
        return tuple(reasons), self._swaps.settle(case.ideas, scene, root, classes)

    def _case(self, fit: Fit, scene: ClusterView, root: Shape) -> Diagnosis:
        when = When.NOT_NOW if fit is Fit.LATER else When.NEVER
        variants = self._unbound if fit is Fit.NEVER else self._variants
        reasons = ReasonFinder(variants.fitter(()), scene, root, when).find()
        ideas = find_changes(self._variants, scene, root)
        if ideas.too_large:
            reasons += (Finding(ChangesNotSought(levels=self._variants.levels, when=when)),)
        return Diagnosis(reasons, ideas)

    def _when_free(self, key: ClassKey | None, scene: ClusterView) -> FreeFit:
        known = self._free.get(key.situation) if key else None
        if known is None:
            slots = self._variants.fitter(()).slots(scene.fold, scene.ever)
            known = FreeFit(slots, tuple(dict.fromkeys(self._met(scene))))
            if key:
                self._free[key.situation] = known
        return known

    def _met(self, scene: ClusterView) -> list[Met]:
        """Return the vertices that meet each requirement."""
        found: list[Met] = []
        for asked in self.request.requires:
            if self.facts.holds(asked, scene.ever.cls):
                found.append(Met("cluster", format_requirement(asked), Where((scene.name(0),))))
        for step in self._variants.fitter(()).plan(scene.fold).steps:
            for asked in step.level.requires:
                where = self._holding(scene, step.level.type, asked)
                if where.names:
                    found.append(Met(step.level.type, format_requirement(asked), where))
        return found

    def _holding(self, scene: ClusterView, type: str, asked: Requirement) -> Where:
        """Return the vertices of a type that meet a requirement."""
        holding = [
            shape
            for shape in multiplicities(scene.fold.root)
            if shape.type == type and self.facts.holds(asked, shape.cls)
        ]
        return scene.where(type, scene.fold.root, holding)
