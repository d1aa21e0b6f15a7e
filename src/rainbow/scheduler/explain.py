"""Explains one request on many clusters: reasons where it does not fit, changes that would help, what was met where."""

from __future__ import annotations

from collections.abc import Hashable

from rainbow.model.changes import say_requirement
from rainbow.model.match import Explanation, Fit, Verdict
from rainbow.model.reasons import Met, When, Where
from rainbow.model.request import Request, Requirement
from rainbow.scheduler.changes_find import find_changes
from rainbow.scheduler.changes_variants import Variants
from rainbow.scheduler.explain_alike import Alike
from rainbow.scheduler.explain_reasons import Reasons
from rainbow.scheduler.explain_scene import Scene
from rainbow.scheduler.fold_facts import Facts
from rainbow.scheduler.fold_shapes import multiplicities


class Explainer:
    """Keeps what it learned from one cluster for the next: equal clusters are explained by the same work."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self.request = request
        self.facts = facts
        self._variants = Variants(request, facts)
        self._alike = Alike(request, facts)
        self._known: dict[Hashable, Explanation] = {}

    def explain_fit(self, cluster: str, fit: Fit, scene: Scene) -> Explanation:
        """The whole answer for one cluster; clusters that are alike are explained once."""
        key = self._alike.key(scene, fits=fit is Fit.NOW)
        known = self._known.get((key, fit)) if key is not None else None
        if known is None:
            fitter = self._variants.fitter(())
            ever = fitter.slots(scene.fold, scene.ever)
            now = ever if scene.now is scene.ever else fitter.slots(scene.fold, scene.now)
            known = self.explain(Verdict(cluster, fit, now, ever), scene)
            if key is not None:
                self._known[key, fit] = known
        verdict = known.verdict
        return Explanation(
            Verdict(cluster, fit, verdict.slots_now, verdict.slots_ever), known.reasons, known.changes, known.met
        )

    def explain(self, verdict: Verdict, scene: Scene) -> Explanation:
        """The whole answer for one cluster whose verdict is known."""
        if verdict.fit is Fit.NOW:
            return Explanation(verdict, met=self._met(scene))
        when = When.NOT_NOW if verdict.fit is Fit.LATER else When.NEVER
        root = scene.now if verdict.fit is Fit.LATER else scene.ever
        reasons = Reasons(self._variants.fitter(()), scene, root, when).find()
        return Explanation(verdict, reasons, find_changes(self._variants, scene, root), self._met(scene))

    def _met(self, scene: Scene) -> tuple[Met, ...]:
        """For each requirement the vertices of its level that meet it."""
        found: list[Met] = []
        for asked in self.request.requires:
            if self.facts.holds(asked, scene.ever.cls):
                found.append(Met("cluster", say_requirement(asked), Where((scene.name(0),))))
        for step in self._variants.fitter(()).plan(scene.fold).steps:
            for asked in step.level.requires:
                where = self._holding(scene, step.level.type, asked)
                if where.names:
                    found.append(Met(step.level.type, say_requirement(asked), where))
        return tuple(dict.fromkeys(found))

    def _holding(self, scene: Scene, type: str, asked: Requirement) -> Where:
        """The vertices of a type at which a requirement is met."""
        holding = [
            shape
            for shape in multiplicities(scene.fold.root)
            if shape.type == type and self.facts.holds(asked, shape.cls)
        ]
        return scene.where(type, scene.fold.root, holding)
