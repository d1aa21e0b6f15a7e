"""The fleet index: find the clusters with enough hosts for a request in a few array operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from rainbow_sched.matching.index.request_form import RequestForm, RequestForms
from rainbow_sched.matching.index.rows import ClusterRows, PendingChange, VertexState, around, offer
from rainbow_sched.matching.index.suffix_counts import suffix_of
from rainbow_sched.matching.index.tables import ROOT, Floats, HostTable, Mask, longer, slots_in
from rainbow_sched.matching.structure.cluster import Fold
from rainbow_sched.matching.structure.facts import Facts, value_types
from rainbow_sched.matching.structure.shapes import Shape, multiplicities
from rainbow_sched.model.request import Requirement

MAX_CACHED_MASKS = 4096  # bounds the memory of the cache


class FleetAnswer(NamedTuple):
    """Masks over cluster numbers: fits now, fits ever, and where the exact matcher must decide.

    `room`: the number of hosts with room for a slot now, or of slots (`by_units`); the request needs `needed` of them.
    """

    now: Mask
    ever: Mask
    unsure: Mask | None
    room: Floats | None
    needed: int
    by_units: bool


class SlotCounts(NamedTuple):
    """The slots that fit now and ever, by cluster number, and where the exact matcher must count them."""

    now: Floats
    ever: Floats
    unsure: Mask | None

    def sure(self, cluster: int) -> bool:
        """Return True if a cluster's counts are exact."""
        return self.unsure is None or not self.unsure[cluster]


class FleetIndex:
    """Tables of all hosts of all clusters."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.ever: dict[str, HostTable] = {ROOT: HostTable()}
        self.moved: dict[str, HostTable] = {}  # difference between now and ever
        self.traits = TypeTraits()
        self._rows: dict[int, ClusterRows] = {}
        self._masks: dict[object, tuple[int, int, Mask]] = {}

    def put(self, cluster: int, fold: Fold) -> None:
        """Add a cluster with everything free."""
        self.drop(cluster)
        self.traits.set(cluster, traits_of(fold))
        for shape, count in multiplicities(fold.root).items():
            if shape.kids:
                table = self.ever.setdefault(shape.type, HostTable())
                table.add((cluster, shape.cls, True, offer(shape)), count)
        self.ever[ROOT].add((cluster, fold.root.cls, True, around(fold.root)), 1)

    def drop(self, cluster: int) -> None:
        """Remove a cluster."""
        self.traits.grow(cluster + 1)
        self.traits.set(cluster, ())
        for table in self.ever.values():
            table.forget(cluster)
        if self._rows.pop(cluster, None) is not None:
            for table in self.moved.values():
                table.forget(cluster)

    def change(self, cluster: int, fold: Fold, state: VertexState, changed: PendingChange) -> None:
        """Move the hosts of changed vertices to their new rows."""
        rows = self._rows.get(cluster)
        if rows is None:
            rows = self._rows[cluster] = ClusterRows(cluster, fold, self.moved)
        rows.change(state, changed)

    def answer(self, request: RequestForms) -> FleetAnswer:
        """Return where the request fits, and where the tables are not exact."""
        forms = request.forms
        masks: list[Mask | None] = [None if request.exact else np.ones(self.traits.size, np.bool_)]
        now, ever, room, by_units = self._form(forms[0], masks)
        for form in forms[1:]:
            form_now, form_ever, *_ = self._form(form, masks)
            now, ever, room = now & form_now, ever & form_ever, None
        if len(forms) > 1:
            masks += [self.traits.get("inner", need.type) for form in forms for need in form.needs]
        if request.requires:
            met = self._root_meets(request.requires)
            now, ever = now & met, ever & met
        unsure = _union(masks)
        return FleetAnswer(now, ever, unsure, None if unsure is not None else room, forms[0].count, by_units)

    def slots(self, request: RequestForms) -> SlotCounts | None:
        """Return how much of the one top-level resource fits each cluster; None if the tables are not exact."""
        form = request.forms[0]
        if not request.exact or len(request.forms) > 1 or not form.host or form.wrappers or form.abstract:
            return None
        masks: list[Mask | None] = []
        self._form(form, masks)
        now, ever = self._slots(replace(form, count=max(2, form.count)), form.host)  # one is answered by yes or no
        if request.requires:
            met = self._root_meets(request.requires)
            now, ever = now * met, ever * met
        return SlotCounts(now, ever, _union(masks))

    def _root_meets(self, requires: tuple[Requirement, ...]) -> Mask:
        table = self.ever[ROOT]
        rows = table.size
        met = np.zeros(self.traits.size, np.bool_)
        met[table.cluster[:rows]] = self._class_mask(requires)[table.cls[:rows]] & (table.count[:rows] > 0)
        return met

    def _form(self, form: RequestForm, unsure: list[Mask | None]) -> tuple[Mask, Mask, Floats | None, bool]:
        """Return which clusters have enough for one form, now and ever; add inexact ones to `unsure`.

        The third value is the number of hosts with room for a slot now, or of slots if the fourth is True.
        """
        now, ever = self._slots(form, form.host)
        by_units = not (form.exclusive or not form.shared or form.count == 1)
        if form.host:
            unsure.append(self.traits.get("nested", form.host))
            lacks = self.traits.lacking(form.host) if form.abstract else None
            if lacks is not None:
                by_units = True
                slots = replace(form, shared=True, exclusive=False, count=max(2, form.count))  # one: only yes or no
                root_now, root_ever = self._slots(slots, ROOT)
                now, ever = np.where(lacks, root_now, now), np.where(lacks, root_ever, ever)
                if form.exclusive:
                    unsure.append(lacks)
        room = None if by_units and any(need.scale for need in form.needs) else now
        good_ever = ever >= form.count
        good_now = good_ever if now is ever else now >= form.count
        for type, abstract in form.wrappers:
            unsure.append(self.traits.several(type))
            lacks = None if abstract else self.traits.lacking(type)
            if lacks is not None:
                good_now, good_ever = good_now & ~lacks, good_ever & ~lacks
        for need in form.needs:
            lumpy = self.traits.get("lumpy", need.type)  # whole vertices with a size or a unit: rows do not know them
            if lumpy is not None:
                room = None
                good_now, good_ever = good_now | lumpy, good_ever | lumpy
                unsure.append(lumpy)
            unsure.append(self.traits.get("nested", need.type))
            unsure.append(self.traits.get("mixed", need.type))
            if need.exclusive:
                unsure.append(self.traits.get("sized", need.type))
            if len(form.needs) > 1 or form.exclusive:
                unsure.append(self.traits.get("inner", need.type))
        return good_now, good_ever, room, by_units

    def _slots(self, form: RequestForm, host: str) -> tuple[Floats, Floats]:
        """Return the slots that fit now and ever, by cluster number."""
        mask = self._class_mask(form.requires) if form.requires else None
        table, moved = self.ever.get(host), self.moved.get(host)
        ever = self._count(table, form, mask) if table else np.zeros(self.traits.size)
        return (ever + self._count(moved, form, mask), ever) if moved else (ever, ever)

    def _count(self, table: HostTable, form: RequestForm, mask: Mask | None) -> Floats:
        suffix = suffix_of(table)
        slots = suffix.slots(form, mask, self.traits.size) if suffix else None
        return slots if slots is not None else slots_in(table, form, mask, self.traits.size)

    def _class_mask(self, requires: tuple[Requirement, ...]) -> Mask:
        """Return a mask over classes of facts: whether they meet all these requirements."""
        facts = self.facts
        key = (requires, value_types(requires))
        cached = self._masks.get(key)
        if cached is not None and cached[0] == len(facts.classes) and cached[1] == len(facts.fields):
            return cached[2]
        bits = -1
        for requirement in requires:
            bits &= facts.class_bits(requirement)
        size = len(facts.classes)
        packed = np.frombuffer(bits.to_bytes(size // 8 + 1, "little"), np.uint8)
        mask = np.unpackbits(packed, count=size, bitorder="little").view(np.bool_)
        if len(self._masks) >= MAX_CACHED_MASKS:
            self._masks.clear()
        self._masks[key] = (size, len(facts.fields), mask)
        return mask


def _union(masks: Iterable[Mask | None]) -> Mask | None:
    """Return the clusters in any of the masks; None if there are none."""
    found: Mask | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


class TypeTraits:
    """Traits of types as masks over clusters; `traits_of` defines the traits."""

    def __init__(self) -> None:
        self.size = 16
        self._masks: dict[tuple[str, str], Mask] = {}
        self._holding: dict[tuple[str, str], int] = {}  # number of clusters in each mask
        self._of: dict[int, frozenset[tuple[str, str]]] = {}  # by cluster
        self._equal: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}  # few designs, many clusters

    def grow(self, size: int) -> None:
        """Make room for cluster numbers below `size`."""
        if size > self.size:
            self.size = max(size, 2 * self.size)
            for key, mask in self._masks.items():
                self._masks[key] = longer(mask, self.size)

    def set(self, cluster: int, traits: Iterable[tuple[str, str]]) -> None:
        """Set all traits of a cluster."""
        for key in self._of.pop(cluster, ()):
            self._masks[key][cluster] = False
            self._holding[key] -= 1
        after = frozenset(traits)
        if after:
            self._of[cluster] = after = self._equal.setdefault(after, after)
        for key in after:
            if key not in self._masks:
                self._masks[key] = np.zeros(self.size, np.bool_)
            self._masks[key][cluster] = True
            self._holding[key] = self._holding.get(key, 0) + 1

    def get(self, trait: str, type: str) -> Mask | None:
        """Return the clusters whose type has this trait, or None if there are none."""
        return self._masks[trait, type] if self._holding.get((trait, type)) else None

    def lacking(self, type: str) -> Mask | None:
        """Return the clusters without vertices of a type, or None if all have some."""
        if self._holding.get(("has", type), 0) == len(self._of):
            return None
        having = self.get("has", type)
        return np.ones(self.size, np.bool_) if having is None else ~having

    def several(self, type: str) -> Mask | None:
        """Return the clusters that have vertices of a type, but not as `sole`."""
        having = self.get("has", type)
        if having is None or self._holding["has", type] == self._holding.get(("sole", type), 0):
            return None
        sole = self.get("sole", type)
        return having if sole is None else having & ~sole


def traits_of(fold: Fold) -> set[tuple[str, str]]:
    """Return pairs of a trait and a type.

    has     the type has vertices
    nested  some are inside a vertex of the same type
    sole    there is one, and all other vertices are inside or above it
    sized   some leaves have a size above 1 or a unit
    inner   some have children
    outer   some are leaves
    mixed   both inner and outer
    lumpy   some with children have a size above 1 or a unit
    """
    graph = fold.graph
    traits: set[tuple[str, str]] = set()
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    seen: set[tuple[Shape, frozenset[str]]] = set()

    def visit(shape: Shape, above: frozenset[str]) -> None:
        if (shape, above) in seen:
            return
        seen.add((shape, above))
        traits.add(("has", shape.type))
        if shape.type in above:
            traits.add(("nested", shape.type))
        if shape.size > 1 or shape.unit:
            traits.add(("lumpy" if shape.kids else "sized", shape.type))
        traits.add(("inner" if shape.kids else "outer", shape.type))
        for kid, _ in shape.kids:
            visit(kid, above | {shape.type})

    visit(fold.root, frozenset())
    traits |= {("mixed", type) for trait, type in traits if trait == "inner" and ("outer", type) in traits}
    for i, type in enumerate(graph.types):
        counts[type] = counts.get(type, 0) + 1
        first.setdefault(type, i)
    for type, number in counts.items():
        if number == 1:
            around = chain(fold.structure.below(first[type]), fold.structure.above(first[type]))
            if sum(1 for _ in around) == len(graph) + 1:  # both begin with the vertex itself
                traits.add(("sole", type))
    return traits
