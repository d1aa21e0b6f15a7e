"""Jobs that Slurm accepted and no longer lists: a killed controller may forget running jobs and kill them.

Certain results are returned at once: those from accounting (`sacct`), and that a job without a start marker will never
run, because the agent then creates the marker itself. A started job writes heartbeats; without them it has ended. Many
sites have no accounting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.files import SlurmFiles, SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, wait_status
from rainbow_sched.agent.backends.slurm.tracker import overdue, update_of, withdrawn
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import RainbowError

_ENDED = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="Slurm lost track of it while it ran, and it ended without an exit code; it was not started again",
)
_FIELDS = ("JobIDRaw", "JobName", "State", "ExitCode", "Submit", "Start", "End", "NNodes", "NCPUS")
CLOCK_SKEW_SECONDS = 120.0  # seconds that the clocks of agent and controller may differ
FAILURE_PAUSE_SECONDS = 3600.0  # seconds without further queries after a failure: accounting does not appear by itself


class AccountingQuery:
    """Query `sacct` for jobs that squeue does not list."""

    def __init__(self, commands: SlurmCommands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands, self._clock = commands, clock
        self._none_until = 0.0

    async def job(self, tag: str, record: SlurmRecord) -> SlurmJob | None:
        """Return the job from accounting; None if it is not found or there is no accounting."""
        if not record.native or self._clock() < self._none_until:
            return None
        try:
            text = await self._commands.ask(
                *("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={record.native}"),
                *(f"--format={','.join(_FIELDS)}", f"--starttime={_when(record.asked - CLOCK_SKEW_SECONDS)}"),
            )
        except RainbowError:
            self._none_until = self._clock() + FAILURE_PAUSE_SECONDS
            return None
        found = [job for job in parse_accounts(text) if job.id == record.native and job.name == tag]
        return next((job for job in found if (job.submitted or 0.0) >= record.asked - CLOCK_SKEW_SECONDS), None)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def parse_accounts(text: str) -> list[SlurmJob]:
    """Parse `sacct --parsable2`; a job with a bar in its name is not ours."""
    found = []
    for line in text.splitlines():
        words = line.split("|")
        if len(words) != len(_FIELDS) or not words[0].isdecimal():
            continue
        id, name, state, code, submitted, started, ended, nodes, cpus = words
        exit_code, signal = wait_status(code)
        found.append(
            SlurmJob(
                id=id,
                user=-1,
                state=state.partition(" ")[0],  # CANCELLED by 1000
                submitted=_time(submitted),
                started=_time(started),
                ended=_time(ended),
                code=exit_code,
                signal=signal,
                nodes=int(nodes) if nodes.isdecimal() else 1,
                cpus=int(cpus) if cpus.isdecimal() else 1,
                name=name,
            )
        )
    return found


def _time(text: str) -> float | None:
    return float(text) if text.isdecimal() and text != "0" else None


@dataclass(frozen=True, slots=True)
class _Seen:
    change_marker: tuple[object, ...]
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
        accounted = await self._accounts.job(files.tag, record)
        update = update_of(files, accounted, self._now()) if accounted is not None else None
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
        change_marker, now = files.heartbeat(), self._clock()
        if change_marker is None:
            return overdue(files, self._now())  # no heartbeat: use start time and limit
        before = self._seen.get(files.tag)
        if before is None or before.change_marker != change_marker:
            self._seen[files.tag] = _Seen(change_marker, now)
            return False
        return now - before.at >= self._settle

    def forget(self, tag: str) -> None:
        self._seen.pop(tag, None)
