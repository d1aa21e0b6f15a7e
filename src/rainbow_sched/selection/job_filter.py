"""Variables and evaluation of `--accept` job filters, shared by server and agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary
from rainbow_sched.selection.expressions import Expression

Value: TypeAlias = str | float | bool


def variables(
    request: Request, *, owner: str, name: str, priority: int, labels: Mapping[str, object]
) -> dict[str, Value]:
    """Return nodes, cores, gpus, duration (0 without a time limit), owner, name, priority and labels.KEY of one job."""
    summary = RequestSummary.of(request)
    demand = Demand.of(request, summary)
    values: dict[str, Value] = {
        "nodes": float(demand.nodes),
        "cores": float(demand.cores),
        "gpus": float(summary.leaf_totals.get("gpu", 0)),
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
