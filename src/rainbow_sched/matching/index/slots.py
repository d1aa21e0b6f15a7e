"""Count the slots of a form in the rows of one table, by cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rainbow_sched.matching.index.request_form import Need, RequestForm
from rainbow_sched.matching.index.tables import WHOLE, Dim, Floats, HostTable, Ints, Mask
from rainbow_sched.model.quantities import factor

LARGEST = 1 << 62
MANY = 1 << 41  # slots in one host; more than a request can ask for


def slots_in(table: HostTable, form: RequestForm, classes: Mask | None, clusters: int) -> Floats:
    """Return the slots by cluster number; `classes`: mask of the classes of facts that meet the host's requirements."""
    room = _room(table, form)
    if room is None:
        return np.zeros(clusters)
    return slots_of_rows(table, room * table.count[: table.size], form, classes, clusters)


def slots_of_rows(
    table: HostTable, slots: npt.NDArray[Any], form: RequestForm, classes: Mask | None, clusters: int
) -> Floats:
    """Sum up slots by cluster, without the rows that do not meet the host's requirements."""
    rows = table.size
    if classes is not None:
        slots = slots * classes[table.cls[:rows]]
    if form.exclusive:
        slots = slots * table.clean[:rows]
    return np.bincount(table.cluster[:rows], slots, clusters).astype(np.float64, copy=False)


def _room(table: HostTable, form: RequestForm) -> Ints | Mask | None:
    """Return the slots in one host, by row; None if no row has any."""
    single = form.exclusive or not form.shared
    room: Ints | Mask | None = None
    for need in form.needs:
        wanted = need.count * (need.scale or 1)
        units = units_of(table, need)
        if units is None or wanted > LARGEST:
            return None
        fits: Ints | Mask
        if single or form.count == 1:
            fits = units >= wanted
        else:
            fits = np.minimum(units // wanted, MANY)  # so that a sum over all hosts cannot overflow
        room = fits if room is None else (room & fits if fits.dtype == np.bool_ else np.minimum(room, fits))
    return room


def scale_of(dim: Dim, need: Need) -> int:
    """Return how much one unit of a column counts for a need; 0 if the column does not count."""
    if dim[0] != need.type:
        return 0
    if need.scale:
        return (factor(dim[1]) or 0) if dim[1] and dim[1] != WHOLE else 0
    return int(not need.unit or need.unit == dim[1])


def units_of(table: HostTable, need: Need) -> Ints | None:
    """Return the units of a leaf in each host, as the need counts them."""
    total: Ints | None = None
    for dim, column in table.columns.items():
        scale = scale_of(dim, need)
        if not scale:
            continue
        units = column[: table.size]
        if scale > 1:
            if table.peaks[dim] * scale > LARGEST:
                units = np.minimum(units, LARGEST // scale)  # more than any request needs
            units = units * scale
        total = units if total is None else total + units
    return total
