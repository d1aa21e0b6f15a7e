"""What a cluster's filter over jobs can speak of, and whether it holds: the same for the server and for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.request import Level, Request
from rainbow_sched.selection.expressions import Expression

Value: TypeAlias = str | float | bool


def variables(
    request: Request, *, owner: str, name: str, priority: int, labels: Mapping[str, object]
) -> dict[str, Value]:
    """nodes, cores, gpus, duration (0 without a time limit), owner, name, priority and labels.KEY of one job."""
    demand = Demand.of(request)
    found: dict[str, Value] = {
        "nodes": float(demand.nodes),
        "cores": float(demand.cores),
        "gpus": float(sum(_gpus(level, 1) for group in request.groups for level in group.levels)),
        "duration": float(request.duration or 0.0),
        "owner": owner,
        "name": name,
        "priority": float(priority),
    }
    found.update((f"labels.{key}", str(value)) for key, value in labels.items())
    return found


def holds(wanted: Expression, job: Mapping[str, Value]) -> bool:
    """True if the filter is true of the job; a number or a text is neither true nor false, and takes nothing."""
    return wanted(job) is True


def _gpus(level: Level, above: int) -> int:
    count = above * level.count.min
    own = count if level.type == "gpu" and not level.inside else 0
    return own + sum(_gpus(inner, count) for inner in level.inside)
