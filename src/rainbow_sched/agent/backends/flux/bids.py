"""When a Flux instance would start a job: the scheduler's word where it is honest, else the queue played forward. Pure.

Fluxion's own estimate sees running jobs and reservations. Under `conservative` every waiting
job has a reservation, so it is right; under the other policies it overlooks what waits, so it
is taken only when nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rainbow_sched.agent.backends.flux.jobs import FluxJob, when
from rainbow_sched.agent.core.values import Phase

SOON = 2.0  # seconds: what is said to start so soon starts now
RESERVES_ALL = frozenset({"conservative"})


def believed(answer: Mapping[str, object], waiting: bool) -> float | None:
    """The scheduler's own estimate (seconds since the epoch) if it can be believed."""
    at = when(answer.get("at"))
    honest = not waiting or answer.get("policy") in RESERVES_ALL
    return at if answer.get("fluxion") and honest else None


def soon(seconds: float | None) -> float | None:
    """What starts within moments starts now."""
    return None if seconds is None else 0.0 if seconds < SOON else seconds


def played_forward(jobs: Sequence[FluxJob], cores: int, free: int, now: float) -> float | None:
    """Seconds until so many cores are free behind everything that runs and waits, first come first served.

    Ends are taken from limits; a job without one never ends. Only cores are counted.
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
    """When `cores` are free, and how many are then; takes the jobs that end until then off `ends`."""
    while free < cores:
        if not ends or ends[0][0] == math.inf:
            return None
        end, given = ends.pop(0)
        at, free = max(at, end), free + given
    return at, free
