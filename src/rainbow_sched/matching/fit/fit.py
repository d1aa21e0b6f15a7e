"""Decide exactly whether a request fits a folded cluster: by counting, or by search where levels compete."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from rainbow_sched.matching.fit.count import Counter, competes, hopeless
from rainbow_sched.matching.fit.levels import Plan, Planner
from rainbow_sched.matching.fit.parts import Part, Parts
from rainbow_sched.matching.fit.search import MAX_STEPS, Search, StepBudget
from rainbow_sched.matching.host_binding import Conditions
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.hierarchy import Structure
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.request import Group, Request


class PlanMatcher:
    """One plan of a request with the clusters that it was matched with; equal clusters share their answers."""

    def __init__(self, plan: Plan, facts: Facts, rules: NodeRules | None) -> None:
        self.plan = plan
        self.answers: dict[Shape, bool | None] = {}  # by root
        self.judged: dict[int, tuple[bool | None, bool]] = {}  # by serial number of the root part
        self._facts = facts
        self._rules = rules

    @cached_property
    def counter(self) -> Counter:
        conditions = None if self._rules is None else Conditions(self.plan, self._facts, self._rules)
        return Counter(Parts(self.plan, self._facts, conditions))

    def possible(self, root: Shape) -> bool:
        """Return False if the cluster lacks a type or does not meet what is required of it as a whole."""
        facts = self._facts
        return not self.plan.missing and all(facts.holds(each, root.cls) for each in self.plan.request.requires)

    def search(self, root: Shape, steps: int, budget: StepBudget) -> tuple[Search, Part]:
        """Return a search with parts of its own, so that it is independent of earlier clusters."""
        parts = Parts(self.plan, self._facts, self.counter.parts.conditions)
        return Search(parts, steps, budget), parts.root(root)


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
        self.facts = facts
        self._steps = steps
        self._budget = budget or StepBudget()
        self._planner = Planner(request)
        self._rules = rules if self._planner.summary.may_bind else None
        self._by_structure: dict[Structure, PlanMatcher] = {}
        self._by_plan: dict[Plan, PlanMatcher] = {}

    def plan(self, fold: Fold) -> Plan:
        """Return the plan of the request for this cluster's types and units."""
        return self._matcher(fold).plan

    def _matcher(self, fold: Fold) -> PlanMatcher:
        matcher = self._by_structure.get(fold.structure)
        if matcher is None:
            plan = self._planner.plan(fold.structure.units)
            matcher = self._by_plan.get(plan) or PlanMatcher(plan, self.facts, self._rules)
            self._by_plan[plan] = self._by_structure[fold.structure] = matcher
        return matcher

    def view(self, fold: Fold, root: Shape) -> tuple[Counter, Part]:
        """Return the counter for the request and the root part of the cluster."""
        counter = self._matcher(fold).counter
        return counter, counter.parts.root(root)

    def fits(self, fold: Fold, root: Shape) -> bool | None:
        """Return whether the request fits the cluster with this root shape; None if deciding takes too much work."""
        matcher = self._matcher(fold)
        if root not in matcher.answers:
            if not matcher.possible(root):
                matcher.answers[root] = False
            elif matcher.plan.unclear:
                matcher.answers[root] = None
            else:
                matcher.answers[root] = self._judged(matcher, fold, root)[0]
        return matcher.answers[root]

    def _judged(self, matcher: PlanMatcher, fold: Fold, root: Shape) -> tuple[bool | None, bool]:
        """Return the answer for a view of a cluster, and whether levels compete in it."""
        part = matcher.counter.parts.root(root)
        judged = matcher.judged.get(part.serial)
        if judged is None:
            judged = matcher.judged[part.serial] = self._judge(matcher, part, fold, root)
        return judged

    def _judge(self, matcher: PlanMatcher, part: Part, fold: Fold, root: Shape) -> tuple[bool | None, bool]:
        counter = matcher.counter
        if not competes(counter.parts, part):
            return counter.fits(part), False
        if hopeless(counter, part) or any(each.fits(fold, root) is False for each in self._each_alone):
            return False, True
        search, start = matcher.search(root, self._steps, self._budget)
        return search.fits(start), True

    @cached_property
    def _each_alone(self) -> list[Fitter]:
        """One matcher for each of several top-level resources: if one does not fit alone, no search is needed."""
        levels = [level for group in self.request.groups for level in group.levels]
        requests = (replace(self.request, groups=(Group(levels=(level,)),)) for level in levels if len(levels) > 1)
        return [Fitter(request, self.facts, self._steps, self._budget, self._rules) for request in requests]

    def slots(self, fold: Fold, root: Shape) -> int:
        """Return how much of a single top-level resource fits; for several, 1 if all fit together."""
        matcher = self._matcher(fold)
        plan = matcher.plan
        if not matcher.possible(root) or plan.unclear:
            return 0
        fits, competing = self._judged(matcher, fold, root)
        if len(plan.tops) > 1:
            return int(bool(fits))
        top = plan.tops[0]
        if competing:
            search, start = matcher.search(root, self._steps // 4, self._budget)
            return search.most(start, top, top.need if fits else 0)
        return matcher.counter.total(matcher.counter.parts.root(root), top)
