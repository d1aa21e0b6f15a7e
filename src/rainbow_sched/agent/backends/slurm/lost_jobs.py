"""Jobs that Slurm accepted and no longer lists: a killed controller may forget running jobs and kill them.

Certain results are returned at once: those from accounting (`sacct`), and that a job without a start marker will never
run, because the agent then creates the marker itself. A started job writes heartbeats; without them it has ended. Many
sites have no accounting.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.files import SlurmFiles, SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, slurm_time, wait_status
from rainbow_sched.agent.backends.slurm.tracker import CLOCK_SKEW_SECONDS, overdue, update_of, withdrawn
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import RainbowError

_ENDED = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="Slurm lost track of it while it ran, and it ended without an exit code; it was not started again",
)
_FIELDS = ("JobIDRaw", "JobName", "State", "ExitCode", "Submit", "Start", "End")
FAILURE_PAUSE_SECONDS = 3600.0  # seconds without further queries after a failure: accounting does not appear by itself


class LostJobs:
    """Detect the end of lost jobs. `clock` is monotonic, `now` is the time of day."""

    def __init__(
        self, commands: SlurmCommands, settle: float, clock: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._commands, self._settle, self._clock, self._now = commands, settle, clock, now
        self._no_accounting_until = 0.0  # on the clock
        self._seen: dict[str, tuple[object, float]] = {}  # tag -> last heartbeat, and when it was new

    async def look(self, files: SlurmFiles) -> JobFound | Absent | Unknown:
        """Return the state of a job that Slurm does not list."""
        record = files.record()
        if record is None or (not record.native and files.begun() is None):
            return Absent(never=True)  # sbatch may have accepted it, but of two submissions only one runs
        accounted = await self._accounted(files.tag, record)
        update = update_of(files, accounted, self._now()) if accounted is not None else None
        if update is not None and update.phase is Phase.ENDED:
            return JobFound(update)
        if files.begun() is None and files.withdraw():
            return JobFound(withdrawn(files))
        if self._silent(files):
            native = files.begun() or record.native
            return JobFound(Update(tag=files.tag, phase=Phase.ENDED, native=native, result=_ENDED, sizes=files.sizes()))
        return Unknown("Slurm has no record of the job, but it started and has left no exit code yet")

    async def _accounted(self, tag: str, record: SlurmRecord) -> SlurmJob | None:
        """Return the job from `sacct`; None if it is not found or there is no accounting."""
        if not record.native or self._clock() < self._no_accounting_until:
            return None
        since = record.asked - CLOCK_SKEW_SECONDS
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))
        try:
            text = await self._commands.ask(
                *("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={record.native}"),
                *(f"--format={','.join(_FIELDS)}", f"--starttime={start}"),
            )
        except RainbowError:
            self._no_accounting_until = self._clock() + FAILURE_PAUSE_SECONDS
            return None
        found = [job for job in parse_accounts(text) if job.id == record.native and job.name == tag]
        return next((job for job in found if (job.submitted or 0.0) >= since), None)

    def _silent(self, files: SlurmFiles) -> bool:
        """Return True if the job has written no heartbeat for the settle time."""
        heartbeat, now = files.heartbeat(), self._clock()
        if heartbeat is None:
            return overdue(files, self._now())  # use start time and limit
        before, since = self._seen.get(files.tag, (None, now))
        if before != heartbeat:
            self._seen[files.tag] = heartbeat, now
            return False
        return now - since >= self._settle

    def forget(self, tag: str) -> None:
        self._seen.pop(tag, None)


def parse_accounts(text: str) -> list[SlurmJob]:
    """Parse `sacct --parsable2`; a job with a bar in its name is not ours."""
    found = []
    for line in text.splitlines():
        words = line.split("|")
        if len(words) != len(_FIELDS) or not words[0].isdecimal():
            continue
        id, name, state, exit_code, *times = words
        submitted, started, ended = map(slurm_time, times)
        code, signal = wait_status(exit_code)
        found.append(
            SlurmJob(
                id=id,
                state=state.partition(" ")[0],  # CANCELLED by 1000
                submitted=submitted,
                started=started,
                ended=ended,
                code=code,
                signal=signal,
                name=name,
            )
        )
    return found
