"""Bounded exact search for requests whose levels compete for the same units.

A state is the cluster's parts with the slots placed so far. Equal states are one object, so the
search visits sets of distinct states instead of orders of choices. The first passes keep only a
few states (finding a placement proves that the request fits); the last pass keeps all (finding none proves that
it does not). If the last pass runs out of steps, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rainbow_sched.matching.fit.levels import Step
from rainbow_sched.matching.fit.parts import Content, Part, Parts, in_order

MAX_STEPS = 40_000  # of one pass over one cluster
MAX_STEPS_PER_REQUEST = 1_000_000  # of all passes for one request, over all clusters: some seconds
WIDTHS = (1, 12)


class OutOfSteps(Exception):
    """The search used up its steps."""


class StepBudget:
    """The step limit of all searches for one request together."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_STEPS_PER_REQUEST) -> None:
        self.left = left


class Search:
    """One search over the parts of one request."""

    def __init__(self, parts: Parts, steps: int, budget: StepBudget) -> None:
        self.parts = parts
        self.left = steps
        self.budget = budget
        self.width: int | None = None
        self._once: dict[tuple[int, int], tuple[Part, ...]] = {}

    def fits(self, root: Part) -> bool | None:
        """Return whether the request fits, or None if the steps ran out."""
        steps = self.left
        for width in (*WIDTHS, None):
            self.width, self.left = width, steps
            self._once.clear()
            try:
                if self._fill([root], _hard_first(self.parts.plan.tops)):
                    return True
            except OutOfSteps:
                continue
            if width is None:
                return False
        return None

    def most(self, root: Part, step: Step, enough: int) -> int:
        """Return how many of a single top step fit; at least `enough` if the steps run out."""
        self.width, found = None, 0
        states = [root]
        try:
            while states:
                states = self._one_more(states, step)
                found += bool(states)
        except OutOfSteps:
            found = max(found, enough)
        return found

    def _spend(self, steps: int = 1) -> None:
        self.left -= steps
        self.budget.left -= steps
        if self.left < 0 or self.budget.left < 0:
            raise OutOfSteps

    def _keep(self, states: Iterable[Part]) -> list[Part]:
        """Return the distinct states in a fixed order, at most as many as this pass keeps."""
        different: dict[Part, None] = {}
        for state in states:
            self._spend()
            different[state] = None
            if self.width is not None and len(different) >= self.width:
                break
        return list(different)

    def _fill(self, states: list[Part], steps: tuple[Step, ...]) -> list[Part]:
        """Return the states after all `steps` are placed inside each of `states`."""
        for step in steps:
            if step.leaf:
                states = self._keep(after for state in states for after in self._take(state, step))
            elif step.virtual:
                states = self._stand_in(states, step)
            else:
                for _ in range(step.need):
                    states = self._one_more(states, step)
                    if not states:
                        break
                if not step.level.shared:
                    states = self._keep(self._without_mark(state, step.bit) for state in states)
            if not states:
                return []
        return states

    def _one_more(self, states: list[Part], step: Step) -> list[Part]:
        if step.leaf:
            return self._keep(after for state in states for after in self._take(state, step, 1))
        if step.virtual:
            return self._fill(states, _hard_first(step.inside))
        return self._keep(after for state in states for after in self._choose(state, step))

    def _stand_in(self, states: list[Part], step: Step) -> list[Part]:
        """Place a virtual step: the part itself takes the place of a level that the cluster lacks."""
        if step.level.exclusive:
            free = [state for state in states if step.need == 1 and state.content.clean and not state.touched]
            filled = self._fill(free, _hard_first(step.inside))
            return self._keep(self.parts.make(_sealed(state.content)) for state in filled)
        for _ in range(step.need):
            states = self._fill(states, _hard_first(step.inside))
            if not states:
                break
        return states

    def _choose(self, part: Part, step: Step) -> Iterator[Part]:
        """Iterate over all ways to place one slot of `step` strictly inside `part`."""
        key = (part.serial, step.number)
        cached = self._once.get(key)
        if cached is None:
            cached = tuple(self._choices(part, step))
            self._once[key] = cached
        return iter(cached)

    def _choices(self, part: Part, step: Step) -> Iterator[Part]:
        for kid, _ in part.content.kids:
            if step.leaves & ~kid.bits:
                continue  # the part lacks something that the slot needs
            self._spend()
            if kid.content.chooser_mask & step.bit and not kid.content.marks & step.bit:
                yield from self._at(part, kid, step)
            for after in self._choose(kid, step):
                yield from self._replaced(part, kid, after)

    def _at(self, part: Part, kid: Part, step: Step) -> Iterator[Part]:
        if step.level.exclusive and (kid.touched or not kid.content.clean):
            return
        for after in self._fill([kid], _hard_first(step.inside)):
            if step.level.exclusive:
                yield from self._replaced(part, kid, None)
                return  # other slots cannot use it, however it is filled
            if not step.level.shared:
                after = self.parts.make(after.content._replace(marks=after.content.marks | step.bit))
            yield from self._replaced(part, kid, after)

    def _replaced(self, part: Part, kid: Part, after: Part | None) -> Iterator[Part]:
        """Return `part` with one `kid` changed or taken whole; nothing if that leaves less than is reserved."""
        kids = dict(part.content.kids)
        kids[kid] -= 1
        if not kids[kid]:
            del kids[kid]
        if after is not None:
            kids[after] = kids.get(after, 0) + 1
        content = part.content._replace(
            kids=in_order(kids), has_whole_taken=part.content.has_whole_taken or after is None
        )
        changed = self.parts.make(content)
        if min(changed.slack, default=0) >= 0:
            yield changed

    def _take(self, part: Part, step: Step, need: int = 0) -> Iterator[Part]:
        """Iterate over all ways to take a leaf's units inside `part`: from pools, whole parts, or both."""
        need = need or step.need
        frontier = {(part, 0)}
        seen = set(frontier)
        while frontier:
            ahead: set[tuple[Part, int]] = set()
            for state, got in sorted(frontier, key=lambda item: (item[0].serial, item[1])):
                yield from self._hold(state, step, need - got)
                if got >= need or not state.whole_masks & step.bit:
                    continue
                for after, amount in self._whole(state, step):
                    item = (after, got + amount)
                    if item not in seen:
                        self._spend()
                        seen.add(item)
                        ahead.add(item)
            frontier = ahead

    def _hold(self, part: Part, step: Step, need: int) -> Iterator[Part]:
        """Iterate over all ways to reserve `need` units of the step's pools at `part`."""
        if need <= 0:
            yield part
            return
        pools = self.parts.pools
        usable = [n for n in range(len(part.slack)) if pools[n][1] & step.bit and part.slack[n] > 0]
        usable.sort(key=lambda n: (pools[n][1].bit_count(), n))  # first the pools that the fewest other steps can use
        yield from self._split(part, usable, need)

    def _split(self, part: Part, usable: list[int], need: int) -> Iterator[Part]:
        if sum(part.slack[n] for n in usable) < need:
            return
        if not need:
            yield part
            return
        first, rest = usable[0], usable[1:]
        others = sum(part.slack[n] for n in rest)
        for units in range(min(need, part.slack[first]), max(0, need - others) - 1, -1):
            self._spend()
            reserved = dict(part.content.reserved)
            reserved[first] = reserved.get(first, 0) + units
            content = part.content._replace(reserved=tuple(sorted(item for item in reserved.items() if item[1])))
            yield from self._split(self.parts.make(content), rest, need - units)

    def _whole(self, part: Part, step: Step) -> Iterator[tuple[Part, int]]:
        """Iterate over all ways to take one whole part inside `part`, with the amount it provides."""
        for kid, _ in part.content.kids:
            if not kid.whole_masks & step.bit:
                continue
            if kid.content.whole_mask & step.bit and not kid.touched:
                for after in self._replaced(part, kid, None):
                    yield after, kid.content.amount
            for inner, amount in self._whole(kid, step):
                for after in self._replaced(part, kid, inner):
                    yield after, amount

    def _without_mark(self, part: Part, bit: int) -> Part:
        if not part.marked & bit:
            return part
        kids: dict[Part, int] = {}
        for kid, count in part.content.kids:
            plain = self._without_mark(kid, bit)
            kids[plain] = kids.get(plain, 0) + count
        return self.parts.make(part.content._replace(kids=in_order(kids), marks=part.content.marks & ~bit))


def _sealed(content: Content) -> Content:
    """Return the content with nothing left for other slots."""
    return content._replace(pools=(), kids=(), reserved=(), has_whole_taken=True)


def _hard_first(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Sort leaves before levels, as they fail fast, and exclusive levels before others."""
    return tuple(sorted(steps, key=lambda step: (not step.leaf, not step.level.exclusive, step.number)))
