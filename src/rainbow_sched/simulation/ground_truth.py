"""The true history of a world: every launch and every end on every cluster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rainbow_sched.agent.core.values import Result


@dataclass(slots=True)
class ActualRun:
    """A launch of an attempt."""

    job: int
    n: int
    cluster: str
    started: float
    host: str = ""
    result: Result | None = None  # None: it still runs
    output: bytes = b""


@dataclass(slots=True)
class GroundTruth:
    """All runs by job."""

    runs: dict[int, list[ActualRun]] = field(default_factory=lambda: defaultdict(list))

    def launch(self, job: int, n: int, cluster: str, now: float, host: str = "") -> ActualRun:
        """Record the start of a run."""
        run = ActualRun(job, n, cluster, now, host)
        self.runs[job].append(run)
        return run

    def of(self, job: int, n: int | None = None) -> list[ActualRun]:
        """Return the runs of a job or of one of its attempts."""
        return [run for run in self.runs.get(job, ()) if n is None or run.n == n]

    def live(self, job: int, n: int | None = None) -> list[ActualRun]:
        """Return the runs that have not ended."""
        return [run for run in self.of(job, n) if run.result is None]
