"""Explains one request on many clusters: reasons where it does not fit, changes that would help, what was met where."""

from __future__ import annotations

from rainbow.model.changes import say_requirement
from rainbow.model.match import Explanation, Fit, Verdict
from rainbow.model.reasons import Met, When
from rainbow.model.request import Request
from rainbow.scheduler.changes_find import find_changes
from rainbow.scheduler.explain_reasons import Reasons
from rainbow.scheduler.explain_scene import Scene
from rainbow.scheduler.fit import Fitter
from rainbow.scheduler.fold_facts import Facts
from rainbow.scheduler.fold_shapes import Shape


class Explainer:
    """Keeps what it learned from one cluster for the next: equal clusters are explained by the same work."""

    def __init__(self, request: Request, facts: Facts) -> None:
        self.request = request
        self.facts = facts
        self._fitter = Fitter(request, facts)
        self._changed: list[tuple[Request, Fitter]] = []

    def explain(self, verdict: Verdict, scene: Scene) -> Explanation:
        """The whole answer for one cluster whose verdict is known."""
        if verdict.fit is Fit.NOW:
            return Explanation(verdict, met=self._met(scene))
        when = When.NOT_NOW if verdict.fit is Fit.LATER else When.NEVER
        root = scene.now if verdict.fit is Fit.LATER else scene.ever
        reasons = Reasons(self._fitter, scene, root, when).find()

        def fits(changed: Request) -> bool:
            return self._fits(changed, scene, root)

        changes = find_changes(self.request, scene, root, self._fitter, fits)
        return Explanation(verdict, reasons, changes, self._met(scene))

    def _fits(self, changed: Request, scene: Scene, root: Shape) -> bool:
        if (changed.hosts, changed.not_hosts) != (self.request.hosts, self.request.not_hosts):
            # The view was made for the request's own hosts; without them everything may be used.
            root = scene.fold.root if root is scene.ever else scene.shape_of(0)
            if changed.hosts or changed.not_hosts:
                return False
        for known, fitter in self._changed:
            if known is changed or known == changed:
                return bool(fitter.answer(scene.fold, root).fits)
        fitter = Fitter(changed, self.facts)
        self._changed.append((changed, fitter))
        return bool(fitter.answer(scene.fold, root).fits)

    def _met(self, scene: Scene) -> tuple[Met, ...]:
        """For each requirement the vertices of its level that meet it."""
        found: list[Met] = []
        fold = scene.fold
        for asked in self.request.requires:
            if self.facts.holds(asked, fold.root.cls):
                found.append(Met("cluster", say_requirement(asked), scene.listed([0])))
        for step in self._fitter.plan(fold).steps:
            for asked in step.level.requires:
                holding = [i for i in fold.structure.of_type(step.level.type) if self.facts.holds(asked, fold.cls(i))]
                if holding:
                    found.append(Met(step.level.type, say_requirement(asked), scene.listed(holding)))
        return tuple(dict.fromkeys(found))
