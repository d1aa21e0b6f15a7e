"""The one question about all jobs, shared by everybody who asks at the same time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.jobs import SQUEUE, SlurmJob, ours, parse_jobs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every job of our user that Slurm knew at a moment."""

    begun: float  # the clock before the question was sent
    jobs: tuple[SlurmJob, ...] = ()


class SlurmQueue:
    """Asks squeue. A caller never gets an answer that is older than its question."""

    def __init__(self, commands: SlurmCommands, *, user: int, cluster: str) -> None:
        self._commands, self._user, self._cluster = commands, user, cluster
        self._asking = asyncio.Lock()
        self.last = Snapshot(-1.0)

    async def fresh(self) -> Snapshot:
        """All jobs, as of after this call; many callers share one question. Raise Unavailable if there is no answer."""
        wanted = time.monotonic()
        async with self._asking:
            if self.last.begun < wanted:
                begun = time.monotonic()
                self.last = Snapshot(begun, parse_jobs(await self._commands.ask(*SQUEUE)))
            return self.last

    def ours(self, snapshot: Snapshot) -> dict[str, list[SlurmJob]]:
        """Our own jobs by tag."""
        return ours(snapshot.jobs, self._user, self._cluster)
