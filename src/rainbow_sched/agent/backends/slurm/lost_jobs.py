"""Jobs that Slurm accepted and no longer lists: a killed controller may forget running jobs and kill them.

Certain results are returned at once: those from accounting (`sacct`), and that a job without a start marker will never
run, because the agent then creates the marker itself. A started job writes heartbeats; without them it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rainbow_sched.agent.backends.slurm.accounting import AccountingQuery
from rainbow_sched.agent.backends.slurm.files import SlurmFiles
from rainbow_sched.agent.backends.slurm.tracker import overdue, update_of, withdrawn
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState, Failure

_ENDED = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="Slurm lost track of it while it ran, and it ended without an exit code; it was not started again",
)


@dataclass(frozen=True, slots=True)
class _Seen:
    signs: tuple[object, ...]
    at: float


class LostJobs:
    """Detect the end of lost jobs. `clock` is monotonic, `now` is the time of day."""

    def __init__(
        self, accounts: AccountingQuery, settle: float, clock: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._accounts, self._settle, self._clock, self._now = accounts, settle, clock, now
        self._seen: dict[str, _Seen] = {}

    async def look(self, files: SlurmFiles) -> JobFound | Absent | Unknown:
        """Return the state of a job that Slurm does not list."""
        record = files.record()
        if record is None or (not record.native and files.begun() is None):
            return Absent(never=True)  # sbatch may have accepted it, but of two submissions only one runs
        told = await self._accounts.job(files.tag, record)
        update = update_of(files, told, self._now()) if told is not None else None
        if update is not None and update.phase is Phase.ENDED:
            return JobFound(update)
        if files.begun() is None and files.withdraw():
            return JobFound(withdrawn(files))
        if self._silent(files):
            native = files.begun() or record.native
            return JobFound(Update(tag=files.tag, phase=Phase.ENDED, native=native, result=_ENDED, sizes=files.sizes()))
        return Unknown("Slurm has no record of the job, but it started and has left no exit code yet")

    def _silent(self, files: SlurmFiles) -> bool:
        """Return True if the job has written no heartbeat for the settle time."""
        signs, now = files.signs_of_life(), self._clock()
        if signs is None:
            return overdue(files, self._now())  # no heartbeat: use start time and limit
        before = self._seen.get(files.tag)
        if before is None or before.signs != signs:
            self._seen[files.tag] = _Seen(signs, now)
            return False
        return now - before.at >= self._settle

    def forget(self, tag: str) -> None:
        self._seen.pop(tag, None)
