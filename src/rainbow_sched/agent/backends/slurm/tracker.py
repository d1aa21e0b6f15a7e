"""The state of an attempt: by Slurm, by the job's own files, and of jobs that Slurm accepted and no longer lists.

A killed controller may forget running jobs and kill them. Certain results are returned at once: those from accounting
(`sacct`), and that a job without a start marker will never run, because the agent then creates the marker itself. A
started job writes heartbeats; without them it has ended. Many sites have no accounting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rainbow_sched.agent.backends.common.batch_script import ALREADY_RAN, WITHDRAWN
from rainbow_sched.agent.backends.common.host_binding import wrong_nodes
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.files import SlurmFiles, SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, read_comment, result, slurm_time, wait_status
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.errors import RainbowError

CLOCK_SKEW_SECONDS = 120.0  # seconds that the clocks of agent and controller may differ
SETTLE_SECONDS = 60.0  # seconds in which a lost job may still write its exit code
LOST_JOB_SECONDS = 3600.0  # seconds until a lost job without a limit is considered ended
FAILURE_PAUSE_SECONDS = 3600.0  # seconds without further queries after a failure: accounting does not appear by itself
_LOST = Result(
    state=AttemptState.FAILED,
    failure=Failure.UNKNOWN,
    reason="Slurm lost track of it while it ran, and it ended without an exit code; it was not started again",
)
_ACCOUNT_FIELDS = ("JobIDRaw", "JobName", "State", "ExitCode", "Submit", "Start", "End")


def same_submission(job: SlurmJob, record: SlurmRecord) -> bool:
    """Return True if we submitted this job, by its key, or by its time where a site rewrites comments."""
    comment = read_comment(job.comment)
    if comment is not None:
        return comment.key == record.key
    return job.submitted is None or job.submitted >= record.asked - CLOCK_SKEW_SECONDS


def update_of(files: SlurmFiles, job: SlurmJob | None, now: float) -> Update | None:
    """Return the attempt's state; None if neither Slurm nor the files have it."""
    left = files.left()
    native = job.native if job is not None else files.begun() or ""
    if left is not None and left.cause == WRONG_NODES:
        return _never_ran(files, native, wrong_nodes(files.nodes(), files.recorded().allowed, "Slurm", left.ended))
    if job is None:
        if native == WITHDRAWN:
            return withdrawn(files)
        if left is None:
            return None
        ended, sizes = _explained(left.result(), files), files.sizes()
        return Update(tag=files.tag, phase=Phase.ENDED, native=native, result=ended, sizes=sizes, nodes=files.nodes())
    found = Update(tag=files.tag, phase=job.phase, native=native, sizes=files.sizes())
    if job.phase is not Phase.SUBMITTED:
        found = replace(found, nodes=job.whole_node_list or files.nodes())
    if job.phase is Phase.RUNNING:
        return replace(found, started_at=job.started)
    if job.phase is Phase.ENDED:
        if left is None and job.code == ALREADY_RAN:
            return _ran_before(found, job, now)
        if left is not None and left.code == 0 and not files.end_requested():
            ended = left.result()  # it succeeded, even if a restarted controller reports something else
        else:
            ended = _explained(result(job, left, over_memory=files.over_memory()), files)
        return replace(found, started_at=job.started, result=ended)
    return found


def withdrawn(files: SlurmFiles) -> Update:
    """Return the end of a job that Slurm lost before it started and that can no longer start."""
    ended = Result(state=AttemptState.RETURNED, reason="Slurm accepted the job and lost it before it started")
    return _never_ran(files, files.recorded().native, ended)


def _never_ran(files: SlurmFiles, native: str, ended: Result) -> Update:
    """Return the end of a job whose command was not started: as given, or cancelled if Rainbow ended it."""
    if files.end_requested():
        ended = Result(state=AttemptState.CANCELLED, reason="cancelled before it began", ended_at=ended.ended_at)
    return Update(tag=files.tag, phase=Phase.ENDED, native=native, result=ended, nodes=files.nodes())


def _ran_before(found: Update, job: SlurmJob, now: float) -> Update | None:
    """Return the end of a job that Slurm started a second time after losing its state.

    None while the first run may still write its exit code.
    """
    if now < (job.ended or now) + SETTLE_SECONDS:
        return None
    reason = "Slurm started it twice; it ran once, and its first run left no exit code"
    return replace(found, result=Result(state=AttemptState.FAILED, failure=Failure.UNKNOWN, reason=reason))


def _explained(ended: Result, files: SlurmFiles) -> Result:
    """Add to the reason what the job's files say."""
    found = files.explain(ended)
    if found == ended and ended.state is AttemptState.CANCELLED and not files.end_requested():
        return replace(ended, reason="cancelled in Slurm (scancel or controller), not by Rainbow")
    return found


def overdue(files: SlurmFiles, now: float) -> bool:
    """Return True if a lost job must have ended by its limit."""
    began, limit = files.begun_at(), files.recorded().duration
    return began is None or now > began + (LOST_JOB_SECONDS if limit is None else limit) + CLOCK_SKEW_SECONDS


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
            return JobFound(Update(tag=files.tag, phase=Phase.ENDED, native=native, result=_LOST, sizes=files.sizes()))
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
                *(f"--format={','.join(_ACCOUNT_FIELDS)}", f"--starttime={start}"),
            )
        except RainbowError:
            self._no_accounting_until = self._clock() + FAILURE_PAUSE_SECONDS
            return None
        found = [job for job in parse_accounts(text) if job.native == record.native and job.name == tag]
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
        if len(words) != len(_ACCOUNT_FIELDS) or not words[0].isdecimal():
            continue
        native, name, state, exit_code, *times = words
        submitted, started, ended = map(slurm_time, times)
        code, signal = wait_status(exit_code)
        found.append(
            SlurmJob(
                native=native,
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
