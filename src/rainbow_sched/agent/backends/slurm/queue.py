"""The query for all jobs, shared by concurrent callers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.jobs import SQUEUE, SlurmJob, ours, parse_jobs


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """All jobs of our user at one time."""

    begun: float  # clock before the query
    jobs: tuple[SlurmJob, ...] = ()


class SlurmQueue:
    """Query squeue. No caller gets a result older than its call."""

    def __init__(self, commands: SlurmCommands, *, user: int, cluster: str) -> None:
        self._commands, self._user, self._cluster = commands, user, cluster
        self._asking = asyncio.Lock()
        self.last = QueueSnapshot(-1.0)

    async def fresh(self) -> QueueSnapshot:
        """Return all jobs as of now or later; concurrent callers share a query. Raise Unavailable without an answer."""
        wanted = time.monotonic()
        async with self._asking:
            if self.last.begun < wanted:
                begun = time.monotonic()
                self.last = QueueSnapshot(begun, parse_jobs(await self._commands.ask(*SQUEUE)))
            return self.last

    def ours(self, snapshot: QueueSnapshot) -> dict[str, list[SlurmJob]]:
        """Return our jobs by tag."""
        return ours(snapshot.jobs, self._user, self._cluster)
