"""The fleet part of a decision's record: the facts about every cluster in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from rainbow_sched.model.bid import NO_RECORD
from rainbow_sched.model.candidate import ClusterReport
from rainbow_sched.model.decision import FLEET_KEYS, FleetPart, encoded
from rainbow_sched.model.match import Fit

MAX_CACHED_PARTS = 256


class FleetPartCache:
    """Fleet parts by the reports of the clusters, which are compared by identity; the least recently used are dropped.

    A job that is placed changes the candidates, but no report, so the next decision has the same fleet part.
    """

    def __init__(self) -> None:
        self._parts = lru_cache(MAX_CACHED_PARTS)(_make)

    def of(
        self,
        reports: tuple[ClusterReport, ...],
        later: tuple[tuple[int, Fit], ...],
        slots: tuple[tuple[int, int], ...],
        misfits: tuple[tuple[str, Fit, str], ...] = (),
    ) -> FleetPart:
        """Return the part that all decisions over these clusters share.

        `later`: index and fit of clusters that do not fit now; `slots`: now and ever, if they were counted.
        """
        return self._parts(reports, later, slots, misfits)


def _make(
    reports: tuple[ClusterReport, ...],
    later: tuple[tuple[int, Fit], ...],
    slots: tuple[tuple[int, int], ...],
    misfits: tuple[tuple[str, Fit, str], ...],
) -> FleetPart:
    fits = [Fit.NOW.value] * len(reports)
    for i, fit in later:
        fits[i] = fit.value
    columns = {
        "name": [report.name for report in reports],
        "fit": fits,
        "slots_now": [now for now, _ in slots] or [0] * len(reports),
        "slots_ever": [ever for _, ever in slots] or [0] * len(reports),
        "at": [report.at for report in reports],
    }
    parts = (
        columns,
        _state_columns([report.state for report in reports]),
        {report.name: report.record.to_mapping() for report in reports if report.record is not NO_RECORD},
        {name: [fit.value, why] for name, fit, why in misfits},
    )
    return FleetPart(encoded(dict(zip(FLEET_KEYS, parts, strict=True))))


def _state_columns(states: list[Mapping[str, object]]) -> dict[str, Any]:
    """Return a column per key; keys that few clusters report are stored per cluster, to avoid sparse columns."""
    counts = Counter(chain.from_iterable(states))
    half = len(states) // 2
    columns = {key: [state.get(key) for state in states] for key, count in counts.items() if count > half}
    rare = counts.keys() - columns.keys()
    if not rare:
        return {"columns": columns, "rare": {}}
    by_cluster = {str(i): {k: v for k, v in state.items() if k in rare} for i, state in enumerate(states)}
    return {"columns": columns, "rare": {i: values for i, values in by_cluster.items() if values}}
