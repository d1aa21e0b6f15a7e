"""Start estimates of a Flux instance.

Fluxion's start estimate includes running jobs and reservations. Under `conservative` every pending job has a
reservation, so the estimate is right; under other policies it ignores pending jobs, so it is used only when there are
none. Otherwise the queue is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rainbow_sched.agent.backends.flux.jobs import FluxJob, when
from rainbow_sched.agent.core.values import Phase

RESERVES_ALL = frozenset({"conservative"})


def reliable_estimate(answer: Mapping[str, object], waiting: bool) -> float | None:
    """Return the scheduler's estimate (seconds since the epoch) if it is reliable."""
    at = when(answer.get("at"))
    honest = not waiting or answer.get("policy") in RESERVES_ALL
    return at if answer.get("fluxion") and honest else None


def simulated_start(jobs: Sequence[FluxJob], cores: int, free: int, now: float) -> float | None:
    """Return the seconds until `cores` are free behind all running and pending jobs, first come first served.

    Jobs end at their limits; a job without a limit never ends. Only cores are counted.
    """
    ends = sorted((job.expires or math.inf, job.cores) for job in jobs if job.phase is Phase.RUNNING)
    queue = sorted((job for job in jobs if job.phase is Phase.SUBMITTED), key=lambda job: job.submitted)
    at = now
    for job in queue:
        begins = _begin(ends, max(1, job.cores), free, at)
        if begins is None:
            return None
        at, free = begins
        free -= max(1, job.cores)
        ends = sorted([*ends, (at + job.duration if job.duration else math.inf, max(1, job.cores))])
    begins = _begin(ends, cores, free, at)
    return None if begins is None else begins[0] - now


def _begin(ends: list[tuple[float, int]], cores: int, free: int, at: float) -> tuple[float, int] | None:
    """Return when `cores` are free, and how many are free then; removes jobs that end until then from `ends`."""
    while free < cores:
        if not ends or ends[0][0] == math.inf:
            return None
        end, given = ends.pop(0)
        at, free = max(at, end), free + given
    return at, free
