"""Decide exactly whether a request fits a folded cluster: by counting, or by search where levels compete."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rainbow_sched.matching.fit.count import Counter, competes, hopeless
from rainbow_sched.matching.fit.levels import Plan, Planner
from rainbow_sched.matching.fit.parts import Part, Parts
from rainbow_sched.matching.fit.search import MAX_STEPS, Search, StepBudget
from rainbow_sched.matching.host_binding import Conditions
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import NodeRules, may_bind
from rainbow_sched.model.request import Group, Request


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """Whether a request fits; None if deciding would take too much work."""

    fits: bool | None
    competing: bool = False  # each part fits alone, but not together


class Fitter:
    """Match one request with many clusters; results are cached for equal clusters."""

    def __init__(
        self,
        request: Request,
        facts: Facts,
        steps: int = MAX_STEPS,
        budget: StepBudget | None = None,
        rules: NodeRules | None = None,
    ) -> None:
        """`rules`: the node rules of these clusters; None to ignore them."""
        self.request = request
        self._rules = rules if rules is not None and may_bind(request) else None
        self.facts = facts
        self._steps = steps
        self._budget = budget or StepBudget()
        self._planner = Planner(request)
        self._plans: dict[Structure, Plan] = {}
        self._parts: dict[int, tuple[Parts, Counter]] = {}
        self._answers: dict[tuple[int, Shape], FitAnswer] = {}
        self._alone: list[Fitter] | None = None
        self._by_part: dict[tuple[int, int], tuple[FitAnswer, bool]] = {}

    def plan(self, fold: Fold) -> Plan:
        """Return the plan of the request for this cluster's types and units."""
        known = self._plans.get(fold.structure)
        if known is None:
            known = self._plans[fold.structure] = self._planner.plan(fold.structure.units)
        return known

    def view(self, fold: Fold, root: Shape) -> tuple[Counter, Part]:
        """Return the counter for the request and the root part of the cluster."""
        plan = self.plan(fold)
        pair = self._parts.get(id(plan))
        if pair is None:
            conditions = None if self._rules is None else Conditions(plan, self.facts, self._rules)
            parts = Parts(plan, self.facts, conditions)
            pair = self._parts[id(plan)] = (parts, Counter(parts))
        return pair[1], pair[0].root(root)

    def answer(self, fold: Fold, root: Shape) -> FitAnswer:
        """Return whether the request fits the cluster with the root shape `root`."""
        plan = self.plan(fold)
        key = (id(plan), root)
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._decide(plan, fold, root)
        return known

    def _decide(self, plan: Plan, fold: Fold, root: Shape) -> FitAnswer:
        if not self._possible(plan, root):
            return FitAnswer(False)
        if plan.unclear:
            return FitAnswer(None)
        return self._judged(fold, root)[0]

    def _judged(self, fold: Fold, root: Shape) -> tuple[FitAnswer, bool]:
        """Return the answer for a view of a cluster, and whether levels compete in it."""
        counter, part = self.view(fold, root)
        key = (id(counter), part.serial)
        known = self._by_part.get(key)
        if known is None:
            known = self._by_part[key] = self._judge(counter, part, fold, root)
        return known

    def _judge(self, counter: Counter, part: Part, fold: Fold, root: Shape) -> tuple[FitAnswer, bool]:
        if not competes(counter.parts, part):
            return FitAnswer(counter.fits(part)), False
        if hopeless(counter, part) or any(each.answer(fold, root).fits is False for each in self._each_alone()):
            return FitAnswer(False), True
        parts = counter.parts
        alone = Parts(parts.plan, self.facts, parts.conditions)  # new: independent of earlier clusters
        found = Search(alone, self._steps, self._budget).fits(alone.root(root))
        return FitAnswer(found, competing=found is False), True

    def _each_alone(self) -> list[Fitter]:
        """Return one matcher per top-level resource: if one does not fit alone, no search is needed."""
        levels = [level for group in self.request.groups for level in group.levels]
        if self._alone is None:
            self._alone = []
            if len(levels) > 1:
                requests = (replace(self.request, groups=(Group(levels=(level,)),)) for level in levels)
                self._alone = [
                    Fitter(request, self.facts, self._steps, self._budget, self._rules) for request in requests
                ]
        return self._alone

    def _possible(self, plan: Plan, root: Shape) -> bool:
        return not plan.missing and all(self.facts.holds(asked, root.cls) for asked in self.request.requires)

    def slots(self, fold: Fold, root: Shape) -> int:
        """Return how much of a single top-level resource fits; for several, 1 if all fit together."""
        plan = self.plan(fold)
        if not self._possible(plan, root) or plan.unclear:
            return 0
        counter, part = self.view(fold, root)
        answer, competing = self._judged(fold, root)
        if len(plan.tops) > 1:
            return int(bool(answer.fits))
        top = plan.tops[0]
        if competing:
            alone = Parts(plan, self.facts, counter.parts.conditions)
            search = Search(alone, self._steps // 4, self._budget)
            return search.most(alone.root(root), top, top.need if answer.fits else 0)
        return counter.total(part, top)
