"""A request and its changed forms, each prepared once for matching with many clusters."""

from __future__ import annotations

from rainbow_sched.matching.explain.cluster_view import ClusterView
from rainbow_sched.matching.fit.fit import Fitter
from rainbow_sched.matching.fit.search import MAX_STEPS, StepBudget
from rainbow_sched.matching.memo import memoized
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.changes import Change
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary

Changes = tuple[Change, ...]
MAX_LEVELS = 100_000  # sum over all changed requests matched for one explanation: about two seconds


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

    @memoized
    def request(self, changes: Changes) -> Request:
        """Return the request with these changes applied."""
        return changes[-1].apply(self.request(changes[:-1])) if changes else self._request

    @memoized
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
