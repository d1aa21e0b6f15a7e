"""Project a folded cluster onto one request: only what the request can use remains.

Vertices that no level uses are removed, and their contents move up. Units that can be
divided freely become *pools*; vertices that a level may choose, or must take whole, become *parts*.
The units that a placed slot takes from a pool are *reserved* at the part of the slot: it does not matter which
vertex inside provides them, as long as no part reserves more than it contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from rainbow_sched.matching.fit.levels import Plan, measured
from rainbow_sched.matching.host_binding import Conditions
from rainbow_sched.matching.structure.facts import Facts
from rainbow_sched.matching.structure.shapes import Shape
from rainbow_sched.model.binding import HOST

Pools: TypeAlias = dict[tuple[str, int], int]  # (type, mask of the leaf steps that may take from it): units


class Content(NamedTuple):
    """Content of a part; equal content is the same part."""

    pools: tuple[tuple[int, int], ...] = ()  # (pool's number, units) directly here, not in a part inside
    kids: tuple[tuple[Part, int], ...] = ()
    reserved: tuple[tuple[int, int], ...] = ()  # (pool's number, units) that slots here take from anywhere inside
    chooser_mask: int = 0  # mask of the steps that may choose it
    whole_mask: int = 0  # mask of the leaf steps that may take it whole
    amount: int = 0  # units that it provides when taken whole
    clean: bool = False  # nothing inside was used before this request
    marks: int = 0  # mask of the steps that have chosen it and may not choose it again
    has_whole_taken: bool = False  # something inside was taken whole


class Part:
    """A vertex that some step may choose, with values derived from its content."""

    __slots__ = ("bits", "content", "marked", "serial", "slack", "touched", "whole_masks")

    def __init__(self, serial: int, content: Content, pool_keys: Sequence[tuple[str, int]]) -> None:
        self.serial = serial  # orders parts
        self.content = content
        self.bits = content.whole_mask  # leaf steps with something here or inside
        self.whole_masks = content.whole_mask  # leaf steps with something to take whole
        self.marked = content.marks  # marks here and inside
        self.touched = content.has_whole_taken or bool(content.reserved)  # this request took something inside
        self.slack: tuple[int, ...]  # per pool: units inside that are not reserved
        slack = [0] * len(pool_keys)
        for number, units in content.pools:
            slack[number] += units
            self.bits |= pool_keys[number][1]
        for kid, count in content.kids:
            for number, units in enumerate(kid.slack):
                slack[number] += units * count
            self.bits |= kid.bits
            self.whole_masks |= kid.whole_masks
            self.marked |= kid.marked
            self.touched = self.touched or kid.touched
        for number, units in content.reserved:
            slack[number] -= units
        self.slack = tuple(slack)


class Parts:
    """The interning table of parts for one request, and the projection of clusters into it."""

    def __init__(self, plan: Plan, facts: Facts, conditions: Conditions | None = None) -> None:
        """`conditions`: constraints from the cluster's node rules, or None."""
        self.plan = plan
        self.facts = facts
        self.conditions = conditions
        self.pools: list[tuple[str, int]] = []
        self._pool_number: dict[tuple[str, int], int] = {}
        self._known: dict[Content, Part] = {}
        self._seen: dict[object, tuple[Pools, dict[Part, int]]] = {}
        self._verdicts: dict[int, int] = {}
        self._free = sum(step.bit for step in plan.steps if not step.level.requires)
        self._meeting = [
            (step.bit, [facts.meeting(requirement) for requirement in step.level.requires])
            for step in plan.steps
            if step.level.requires
        ]
        self._forbidden = frozenset(name[1:] for name in plan.request.properties if name.startswith("^"))
        self._wanted = frozenset(name for name in plan.request.properties if not name.startswith("^"))

    def root(self, shape: Shape) -> Part:
        """Return a part around the whole cluster, so that the root itself can be chosen."""
        loose = 0 if self.conditions is None else self.conditions.loose(shape)
        pools, kids = self._project(shape, loose)
        return self.make(Content(pools=self._numbered(pools), kids=in_order(kids), clean=shape.clean))

    def make(self, content: Content) -> Part:
        """Return the part with this content."""
        part = self._known.get(content)
        if part is None:
            part = self._known[content] = Part(len(self._known), content, self.pools)
        return part

    def _numbered(self, pools: Pools) -> tuple[tuple[int, int], ...]:
        found: list[tuple[int, int]] = []
        for key, units in pools.items():
            number = self._pool_number.get(key)
            if number is None:
                number = self._pool_number[key] = len(self.pools)
                self.pools.append(key)
            found.append((number, units))
        return tuple(sorted(found))

    def _project(self, shape: Shape, barred: int = 0, in_host: bool = False) -> tuple[Pools, dict[Part, int]]:
        """Return the pools and parts that the subtree provides.

        `barred`: mask of the steps that cannot use anything in this host, or outside of hosts, as it is mixed.
        """
        # Equal subtrees of one class project equally if their classes meet the same requirements.
        alike: object = shape if shape.base is None else (shape.base, self._verdict(shape.cls))
        here, inner, conditions = barred, barred, self.conditions
        if conditions is not None:
            alike = (alike, barred, in_host)
            if not in_host and conditions.has_host(shape):
                here = 0
                if shape.type == HOST:
                    inner, in_host = conditions.mixed(shape), True
        seen = self._seen.get(alike)
        if seen is not None:
            return seen
        pools: Pools = {}
        parts: dict[Part, int] = {}
        for kid, count in shape.kids:
            kid_pools, kid_parts = self._project(kid, inner, in_host)
            for key, units in kid_pools.items():
                pools[key] = pools.get(key, 0) + units * count
            for part, number in kid_parts.items():
                parts[part] = parts.get(part, 0) + number * count
        chooser_mask, whole_mask, amount = self._own(shape, pools, ~here)
        if whole_mask and amount == 1 and not (chooser_mask or parts or pools):
            pools[shape.type, whole_mask] = pools.get((shape.type, whole_mask), 0) + 1
            whole_mask = 0
        if (chooser_mask and (pools or parts)) or whole_mask:
            content = Content(
                pools=self._numbered(pools),
                kids=in_order(parts),
                chooser_mask=chooser_mask,
                whole_mask=whole_mask,
                amount=amount,
                clean=shape.clean,
            )
            part = self.make(content)
            pools, parts = {}, {part: 1}
        self._seen[alike] = (pools, parts)
        return pools, parts

    def _own(self, shape: Shape, pools: Pools, steps: int) -> tuple[int, int, int]:
        """Return which of `steps` may choose the vertex, which may take it whole, and the amount it then provides."""
        chooser_mask = whole_mask = pool = amount = units = 0
        verdict = self._verdict(shape.cls) & steps
        for step in self.plan.by_type.get(shape.type, ()):
            if not verdict & step.bit:
                continue
            if not step.leaf:
                chooser_mask |= step.bit
            elif not shape.kids:
                found = measured(step.mode, shape.free, shape.unit)
                if not found or not self._may_use(shape):
                    continue
                if step.level.exclusive and not (found == 1 and shape.clean):
                    if shape.clean:
                        whole_mask, amount = whole_mask | step.bit, found
                else:
                    pool, units = pool | step.bit, found
            elif shape.whole and self._may_use(shape) and not self._forbids(shape):
                found = measured(step.mode, shape.size, shape.unit)
                if found:
                    whole_mask, amount = whole_mask | step.bit, found
        if pool:
            pools[shape.type, pool] = pools.get((shape.type, pool), 0) + units
        return chooser_mask, whole_mask, amount

    def _verdict(self, cls: int) -> int:
        """Return the mask of the steps whose requirements a class of facts meets."""
        cached = self._verdicts.get(cls)
        if cached is None:
            facts = self.facts.classes[cls]
            cached = self._free
            for bit, meeting in self._meeting:
                if all(facts & each for each in meeting):
                    cached |= bit
            self._verdicts[cls] = cached
        return cached

    def _may_use(self, shape: Shape) -> bool:
        return shape.allowed and self._wanted <= shape.properties and self._forbidden.isdisjoint(shape.properties)

    def _forbids(self, shape: Shape) -> bool:
        """Return True if something inside has a property that the request forbids."""
        if not self._forbidden:
            return False
        return any(not self._forbidden.isdisjoint(kid.properties) or self._forbids(kid) for kid, _ in shape.kids)


def in_order(counts: Mapping[Part, int]) -> tuple[tuple[Part, int], ...]:
    """Return children in canonical order, so that equal contents compare equal."""
    return tuple(sorted(counts.items(), key=lambda item: item[0].serial))
