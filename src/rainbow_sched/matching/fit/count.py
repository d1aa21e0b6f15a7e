"""Count the slots that fit; exact as long as no two levels compete for the same units.

Several slots in one vertex are counted by division. A level whose vertices must be distinct is
counted by the rule that k slots can each have c distinct vertices exactly if the vertices, each
used at most k times and at most as often as it has room, offer k*c places.
"""

from __future__ import annotations

from collections.abc import Iterator

from rainbow_sched.matching.fit.levels import Step
from rainbow_sched.matching.fit.parts import Part, Parts
from rainbow_sched.matching.memo import Memoized

MANY = 1 << 62  # copies; above every count that a request can ask for


def competes(parts: Parts, root: Part) -> bool:
    """Return True if two levels may use the same units, or a level has pieces of unequal size."""
    if any(step.virtual and step.level.exclusive for step in parts.plan.steps):
        return True
    mixed = 0
    for (_, mask), units in zip(parts.pools, root.slack, strict=False):
        if units and mask & (mask - 1):
            return True
        mixed |= mask if units else 0
    return bool(mixed & root.whole_masks) or _Competition(parts).within(root)


class _Competition:
    def __init__(self, parts: Parts) -> None:
        self.exclusive = [step for step in parts.plan.steps if step.level.exclusive and not step.leaf]
        self.seen: dict[Part, bool] = {}
        self.chooser_masks: dict[Part, int] = {}
        self.sizes: dict[int, int] = {}  # by leaf step's bit: the one size of its pieces

    def within(self, part: Part) -> bool:
        cached = self.seen.get(part)
        if cached is None:
            inner = [self.within(kid) for kid, _ in part.content.kids]
            cached = self.seen[part] = any(inner) or self._here(part)
        return cached

    def _here(self, part: Part) -> bool:
        content = part.content
        inside = chooser_masks = 0
        for kid, _ in content.kids:
            inside |= kid.bits
            chooser_masks |= self.chooser_masks[kid]
        self.chooser_masks[part] = chooser_masks | content.chooser_mask
        if content.chooser_mask & chooser_masks:  # a type inside itself
            return True
        whole_mask = content.whole_mask
        if whole_mask and (whole_mask & (whole_mask - 1) or part.bits != whole_mask or inside & whole_mask):
            return True
        if whole_mask and self.sizes.setdefault(whole_mask, content.amount) != content.amount:
            return True
        return any(step.bit & content.chooser_mask and part.bits & ~step.leaves for step in self.exclusive)


class Counter:
    """Count slots in parts of one request."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._room: dict[tuple[int, int], int] = {}
        self._most: dict[tuple[int, int], int] = {}

    def fits(self, root: Part) -> bool:
        """Return True if all levels of the request fit, each counted alone."""
        return all(self.enough(root, top, 1) for top in self.parts.plan.tops)

    def total(self, part: Part, step: Step) -> int:
        """Return how many of `step` fit inside `part`: units of a leaf, slots, or distinct vertices."""
        if step.leaf:
            return self.units(part, step)
        if step.virtual:
            return self.copies(part, step)
        return self.most(part, step) if step.level.shared else self.spread(part, step, 1)

    def enough(self, part: Part, step: Step, times: int) -> bool:
        """Return True if `part` has room for `times` slots that each need all of `step`."""
        if step.leaf:
            if step.bit & part.whole_masks:
                size, pieces = self._pieces(part, step)
                return pieces // max(1, -(-step.need // size)) >= times
            return self.units(part, step) >= step.need * times
        if step.virtual:
            return all(self.enough(part, inner, times * step.need) for inner in step.inside)
        if step.level.shared:
            return self.most(part, step) >= step.need * times
        return self.spread(part, step, times) >= step.need * times

    def units(self, part: Part, step: Step) -> int:
        """Return the units of a leaf step inside `part`."""
        if step.bit & part.whole_masks:
            size, pieces = self._pieces(part, step)
            return size * pieces
        pools = self.parts.pools
        return sum(units for number, units in enumerate(part.slack) if pools[number][1] & step.bit)

    @Memoized
    def _pieces(self, part: Part, step: Step) -> tuple[int, int]:
        """Return the size and the number of the pieces that a leaf step takes whole."""
        size, pieces = 1, 0
        if part.content.whole_mask & step.bit:
            size, pieces = part.content.amount, 1
        for kid, count in part.content.kids:
            if kid.whole_masks & step.bit:
                size, more = self._pieces(kid, step)
                pieces += more * count
        return size, pieces

    @Memoized
    def whole_units(self, part: Part, step: Step) -> int:
        """Return the units that a leaf step can take in whole vertices, of any size, inside `part`."""
        if not part.whole_masks & step.bit:
            return 0
        own = part.content.amount if part.content.whole_mask & step.bit else 0
        return own + sum(self.whole_units(kid, step) * count for kid, count in part.content.kids)

    def most(self, part: Part, step: Step) -> int:
        """Return the maximum of slots of `step` strictly inside `part`, any number of them in one vertex."""
        key = (part.serial, step.number)
        cached = self._most.get(key)
        if cached is None:
            cached = 0
            for kid, count in part.content.kids:
                inside = self.room(kid, step) if kid.content.chooser_mask & step.bit else self.most(kid, step)
                cached += inside * count
            self._most[key] = cached
        return cached

    def spread(self, part: Part, step: Step, times: int) -> int:
        """Return the same as `most`, with at most `times` slots in one vertex."""
        found = 0
        for kid, count in part.content.kids:
            if kid.content.chooser_mask & step.bit:
                found += min(times, self.room(kid, step)) * count
            elif kid.content.kids:
                found += self.spread(kid, step, times) * count
        return found

    def room(self, part: Part, step: Step) -> int:
        """Return the maximum of slots of `step` in this one vertex."""
        key = (part.serial, step.number)
        cached = self._room.get(key)
        if cached is None:
            if step.level.exclusive:
                cached = int(part.content.clean and all(self.enough(part, inner, 1) for inner in step.inside))
            else:
                cached = self.copies(part, step)
            self._room[key] = cached
        return cached

    def copies(self, part: Part, step: Step) -> int:
        """Return how many times everything inside `step` fits into `part`."""
        bound = MANY
        for inner in step.walk():
            if inner.leaf:
                bound = min(bound, self.units(part, inner) // inner.need)
        if all(inner.leaf and not inner.bit & part.whole_masks for inner in step.inside):
            return bound
        least, most = 0, bound
        while least < most:  # what fits k times also fits fewer times
            middle = (least + most + 1) // 2
            if all(self.enough(part, inner, middle) for inner in step.inside):
                least = middle
            else:
                most = middle - 1
        return least


def hopeless(counter: Counter, root: Part) -> bool:
    """Return True if the levels together need more of a type than the cluster has, so that no search is needed."""
    asked: dict[str, int] = {}
    supply: dict[str, int] = {}
    for (kind, _), units in zip(counter.parts.pools, root.slack, strict=False):
        supply[kind] = supply.get(kind, 0) + units
    for top in counter.parts.plan.tops:
        for leaf, times in _leaves(top, 1):
            kind = leaf.level.type
            asked[kind] = asked.get(kind, 0) + leaf.need * times
            supply[kind] = supply.get(kind, 0) + counter.whole_units(root, leaf)
    return any(units > supply.get(kind, 0) for kind, units in asked.items())


def _leaves(step: Step, times: int) -> Iterator[tuple[Step, int]]:
    if step.leaf:
        yield step, times
    for inner in step.inside:
        yield from _leaves(inner, times * step.need)
