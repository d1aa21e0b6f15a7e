"""Variables and evaluation of `--accept` job filters, shared by server and agent."""

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
    """Return nodes, cores, gpus, duration (0 without a time limit), owner, name, priority and labels.KEY of one job."""
    demand = Demand.of(request)
    values: dict[str, Value] = {
        "nodes": float(demand.nodes),
        "cores": float(demand.cores),
        "gpus": float(sum(_gpus(level, 1) for group in request.groups for level in group.levels)),
        "duration": float(request.duration or 0.0),
        "owner": owner,
        "name": name,
        "priority": float(priority),
    }
    values.update((f"labels.{key}", str(value)) for key, value in labels.items())
    return values


def holds(job_filter: Expression, job: Mapping[str, Value]) -> bool:
    """Return True if the filter accepts the job; a filter whose value is not true or false accepts no job."""
    return job_filter(job) is True


def _gpus(level: Level, above: int) -> int:
    count = above * level.count.min
    own = count if level.type == "gpu" and not level.inside else 0
    return own + sum(_gpus(inner, count) for inner in level.inside)
