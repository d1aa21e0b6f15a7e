"""The tables of the index: per type of host, the number of equal hosts of each cluster.

A row is (cluster, class of facts, clean, free units per type of leaf) with the number of
equal hosts. A thousand equal idle nodes of a cluster are one row. There are two tables per
type of host: the hosts when everything is free (*ever*), and the difference to *now*, in which a
count is negative for hosts that have left a row. The functions below count the slots of a form in one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from rainbow_sched.matching.index.request_form import Need, RequestForm
from rainbow_sched.model.quantities import factor

if TYPE_CHECKING:
    from rainbow_sched.matching.index.suffix_counts import SuffixTable

Dim: TypeAlias = tuple[str, str]  # the leaf's type and its unit; unit WHOLE: vertices with things inside, taken whole
WHOLE = "*"
MOST_ITEMS = 16_384  # items that rows share, or as many as there are rows; bounds their memory
LARGEST = 1 << 62  # bounds products, which are computed in 64 bits
MANY = 1 << 41  # slots in one host; more than a request can ask for
ROOT = ""  # the name of the table in which each cluster is one host
Offer: TypeAlias = tuple[tuple[Dim, int], ...]
RowKey: TypeAlias = tuple[int, int, bool, Offer]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class HostTable:
    """All hosts of one type in the fleet, in columns; rows are not ordered."""

    def __init__(self) -> None:
        self.size = 0
        self.cluster: npt.NDArray[np.intp] = np.zeros(16, np.intp)
        self.cls: npt.NDArray[np.intp] = np.zeros(16, np.intp)
        self.clean: Mask = np.zeros(16, np.bool_)
        self.count: Floats = np.zeros(16)  # floats, as numpy's weighted counting wants them
        self.columns: dict[Dim, Ints] = {}
        self.peaks: dict[Dim, int] = {}  # the largest units ever stored, to prevent overflows
        self.keys: list[RowKey] = []
        self.suffix: SuffixTable | None = None
        self.suffix_at = 0  # number of rows at which suffix counts are tried again
        self._rows: dict[RowKey, int] = {}
        self._empty: list[int] = []
        self._items: dict[tuple[Dim, int], tuple[Dim, int]] = {}  # equal parts of keys are one object

    def __len__(self) -> int:
        """Return the number of rows in use."""
        return len(self._rows)

    def add(self, key: RowKey, hosts: int) -> RowKey:
        """Add hosts to a row or remove them, free the row if it is empty, and return its interned key."""
        row = self._rows.get(key)
        if row is None:
            key = (key[0], key[1], key[2], tuple([self._items.setdefault(item, item) for item in key[3]]))
            row = self._rows[key] = self._make(key)
        self.count[row] += hosts
        if self.suffix is not None:
            self.suffix.add(key, hosts)
        key = self.keys[row]
        if not self.count[row]:
            del self._rows[key]
            self._empty.append(row)
        return key

    def _make(self, key: RowKey) -> int:
        if len(self._items) > max(MOST_ITEMS, len(self._rows)):
            self._items.clear()
        if self._empty:
            row = self._empty.pop()
            self.keys[row] = key
        else:
            row = self.size
            self.size += 1
            self.keys.append(key)
            if row >= len(self.cluster):
                size = 2 * len(self.cluster)
                self.cluster = longer(self.cluster, size)
                self.cls = longer(self.cls, size)
                self.clean = longer(self.clean, size)
                self.count = longer(self.count, size)
                self.columns = {dim: longer(column, size) for dim, column in self.columns.items()}
        self.cluster[row], self.cls[row], self.clean[row] = key[0], key[1], key[2]
        for column in self.columns.values():
            column[row] = 0
        for dim, units in key[3]:
            if dim not in self.columns:
                self.columns[dim] = np.zeros(len(self.cluster), np.int64)
            self.columns[dim][row] = units
            self.peaks[dim] = max(units, self.peaks.get(dim, 0))
        return row

    def forget(self, cluster: int) -> None:
        """Remove all rows of a cluster."""
        for row in np.flatnonzero(self.cluster[: self.size] == cluster).tolist():
            if self.count[row]:
                self.add(self.keys[row], -int(self.count[row]))


def longer(column: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    """Return the column with zeros at its end, as long as `size`."""
    return np.pad(column, (0, size - len(column)))


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
