"""The fleet as tables: which clusters have enough hosts for a form of request, all in a few array operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rainbow.graphs.memory_form import Form, Need, read_forms
from rainbow.graphs.memory_kinds import Kinds, kinds_of
from rainbow.graphs.memory_rows import Changed, Held, Rows, around, offer
from rainbow.graphs.memory_tables import ROOT, WHOLE, HostTable, Ints, Mask
from rainbow.model.quantities import factor
from rainbow.model.request import Request, Requirement
from rainbow.scheduler.fold import Fold
from rainbow.scheduler.fold_facts import Facts
from rainbow.scheduler.fold_shapes import multiplicities

LARGEST = 1 << 62
MANY = 1 << 41  # slots in one host; more than a request can ask for
Numbers = npt.NDArray[Any]  # whole numbers, as floats where numpy counts with weights


class FleetIndex:
    """Tables of all hosts of all clusters."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.tables: dict[str, HostTable] = {ROOT: HostTable()}
        self.kinds = Kinds()
        self._rows: dict[int, Rows] = {}

    def put(self, cluster: int, fold: Fold) -> None:
        """Add a cluster, all of it free."""
        self.drop(cluster)
        self.kinds.grow(cluster + 1)
        self.kinds.set(cluster, kinds_of(fold))
        for shape, count in multiplicities(fold.root).items():
            if shape.kids:
                table = self.tables.setdefault(shape.type, HostTable())
                table.add(table.row((cluster, shape.cls, True, offer(shape))), count, count)
        root = self.tables[ROOT]
        root.add(root.row((cluster, fold.root.cls, True, around(fold.root))), 1, 1)

    def drop(self, cluster: int) -> None:
        """Remove a cluster."""
        self._rows.pop(cluster, None)
        self.kinds.grow(cluster + 1)
        self.kinds.set(cluster, ())
        for table in self.tables.values():
            table.forget(cluster)

    def change(self, cluster: int, fold: Fold, state: Held, changed: Changed) -> None:
        """Move the hosts around changed vertices to the rows where they now belong."""
        rows = self._rows.get(cluster)
        if rows is None:
            rows = self._rows[cluster] = Rows(cluster, fold, self.tables)
        rows.change(state, changed)

    def answer(self, request: Request) -> tuple[Mask, Mask, Mask]:
        """Masks over cluster numbers: fits now, fits ever, and where the exact matcher must still decide."""
        forms, exact = read_forms(request)
        size = self.kinds.size
        now = np.ones(size, np.bool_)
        ever = np.ones(size, np.bool_)
        unsure = np.full(size, not exact)
        for form in forms:
            form_now, form_ever, form_unsure = self._form(form)
            now &= form_now
            ever &= form_ever
            unsure |= form_unsure
            if len(forms) > 1:
                for need in form.needs:
                    unsure |= self.kinds["inner", need.type]
        if request.requires:
            met = self._root_meets(request.requires)
            now &= met
            ever &= met
        return now, ever, unsure

    def _root_meets(self, requires: tuple[Requirement, ...]) -> Mask:
        table = self.tables[ROOT]
        met = np.zeros(self.kinds.size, np.bool_)
        met[table.cluster[: table.size]] = self._class_mask(requires)[table.cls[: table.size]] & (
            (table.ever[: table.size] > 0) | (table.now[: table.size] > 0)
        )
        return met

    def _form(self, form: Form) -> tuple[Mask, Mask, Mask]:
        kinds = self.kinds
        unsure = np.zeros(kinds.size, np.bool_)
        now, ever = self._slots(form, form.host)
        if form.host:
            unsure |= kinds["nested", form.host]
            if form.abstract:
                lacks = ~kinds["has", form.host]
                if lacks.any():
                    root_now, root_ever = self._slots(form, ROOT)
                    now = np.where(lacks, root_now, now)
                    ever = np.where(lacks, root_ever, ever)
                    if form.exclusive:
                        unsure |= lacks
        good_now, good_ever = now >= form.count, ever >= form.count
        for type, abstract in form.wrappers:
            has = kinds["has", type]
            if not abstract:
                good_now &= has
                good_ever &= has
            unsure |= has & ~kinds["sole", type]
        for need in form.needs:
            lumpy = kinds["lumpy", need.type]  # whole vertices with a size or a unit: the rows do not know them
            good_now = good_now | lumpy
            good_ever = good_ever | lumpy
            unsure |= kinds["nested", need.type] | lumpy | kinds["mixed", need.type]
            if need.exclusive:
                unsure |= kinds["sized", need.type]
            if len(form.needs) > 1 or form.exclusive:
                unsure |= kinds["inner", need.type]
        return good_now, good_ever, unsure

    def _slots(self, form: Form, host: str) -> tuple[Numbers, Numbers]:
        """How many slots fit each cluster now and ever, by cluster number."""
        table = self.tables.get(host)
        size = self.kinds.size
        room = None if table is None else self._room(table, form, host == ROOT)
        if table is None or room is None:
            nothing = np.zeros(size)
            return nothing, nothing
        rows = table.size
        cluster = table.cluster[:rows]
        ever = np.bincount(cluster, room * table.ever[:rows], size)
        if not table.busy:
            return ever, ever
        return np.bincount(cluster, room * table.now[:rows], size), ever

    def _room(self, table: HostTable, form: Form, root: bool) -> Ints | Mask | None:
        """Slots in one host, by row; None if no row has any."""
        single = not root and (form.exclusive or not form.shared)
        room: Ints | Mask | None = None
        for need in form.needs:
            units = _units(table, need)
            wanted = need.count * (need.scale or 1)
            if units is None or wanted > LARGEST:
                return None
            fits: Ints | Mask = units >= wanted if single or (root and form.count == 1) else units // wanted
            if table.peaks.get((need.type, need.unit), MANY) >= MANY and fits.dtype != np.bool_:
                fits = np.minimum(fits, MANY)  # so that the sum over all hosts cannot overflow
            if room is None:
                room = fits
            elif fits.dtype == np.bool_:
                room = room & fits
            else:
                room = np.minimum(room, fits)
        assert room is not None  # a form has needs
        if form.exclusive and not root:
            room = room & table.clean[: table.size]
        if form.requires:
            room = room * self._class_mask(form.requires)[table.cls[: table.size]]
        return room

    def _class_mask(self, requires: tuple[Requirement, ...]) -> Mask:
        """By class of facts: are all these requirements met?"""
        mask: Mask | None = None
        for requirement in requires:
            one = np.zeros(len(self.facts.classes), np.bool_)
            one[self.facts.classes_meeting(requirement)] = True
            mask = one if mask is None else mask & one
        assert mask is not None  # only called with requirements
        return mask


def _units(table: HostTable, need: Need) -> Ints | None:
    """The units of a leaf in each host, as the need counts them."""
    found: Ints | None = None
    for dim, column in table.columns.items():
        if dim[0] != need.type:
            continue
        scale = 1
        if need.scale:
            scale = (factor(dim[1]) or 0) if dim[1] and dim[1] != WHOLE else 0
        elif need.unit and need.unit != dim[1]:
            scale = 0
        if not scale:
            continue
        units = column[: table.size]
        if scale > 1:
            # Past this size an amount of bytes does not fit the column; so much is more than anybody asks for.
            units = np.minimum(units, LARGEST // scale) * scale if table.peaks[dim] * scale > LARGEST else units * scale
        found = units if found is None else found + units
    return found
