"""What really happened, as no process in the world can know it: every launch and every end, on every cluster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rainbow_sched.agent.core.values import Result


@dataclass(slots=True)
class Run:
    """One launch of one attempt."""

    job: int
    n: int
    cluster: str
    started: float
    host: str = ""
    result: Result | None = None  # None: it still runs
    output: bytes = b""


@dataclass(slots=True)
class Truth:
    """All runs, by job."""

    runs: dict[int, list[Run]] = field(default_factory=lambda: defaultdict(list))

    def launch(self, job: int, n: int, cluster: str, now: float, host: str = "") -> Run:
        """A job begins to run."""
        run = Run(job, n, cluster, now, host)
        self.runs[job].append(run)
        return run

    def of(self, job: int, n: int | None = None) -> list[Run]:
        """The launches of a job, or of one of its attempts."""
        return [run for run in self.runs.get(job, ()) if n is None or run.n == n]

    def live(self, job: int, n: int | None = None) -> list[Run]:
        """Those that still run."""
        return [run for run in self.of(job, n) if run.result is None]
