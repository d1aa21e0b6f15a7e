"""The directory of one Slurm job, and the state of the attempt by Slurm and by these files.

The directory must be visible on the nodes (option `spool`). A killed controller may forget running jobs and kill them.
Certain results are returned at once: those from accounting (`sacct`), and that a job without a start marker will never
run, because the agent then creates the marker itself. A started job writes heartbeats; without them it has ended. Many
sites have no accounting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.batch_script import ALREADY_RAN, WITHDRAWN, ScriptFolder, ScriptWords
from rainbow_sched.agent.backends.common.host_binding import hostlist, wrong_nodes
from rainbow_sched.agent.backends.common.job_folder import SubmitRecord
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, read_comment, result, slurm_time, wait_status
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.hostlist import expand

_NODELIST = "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
_UNSET = "unset SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_TIME_FORMAT\n"
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


@dataclass(frozen=True, slots=True)
class SrunStep:
    """An srun step in one component."""

    task: int  # index in `Request.tasks`
    words: tuple[str, ...]  # srun and its options


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRecord:
    """Resources of one component of a heterogeneous job; fields as in `SlurmRecord`."""

    gpus: int = 0
    cores: int = 0
    memory: int = 0
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRecord(SubmitRecord):
    gpus: int = 0  # per node
    cores: int = 0  # total; 0: whole nodes, or not known
    memory: int = 0  # MiB in total; 0: likewise
    parts: tuple[ComponentRecord, ...] = ()  # components of a heterogeneous job, in Slurm's order

    def __post_init__(self) -> None:
        """Take components as JSON has them."""
        parts = (part if isinstance(part, ComponentRecord) else ComponentRecord(**part) for part in self.parts)
        object.__setattr__(self, "parts", tuple(parts))

    def whole(self) -> SlurmRecord:
        """Return the record with the fields of its only component, or with the hosts of all."""
        if len(self.parts) == 1:
            return replace(self.part(0), parts=())
        names = dict.fromkeys(name for part in self.parts if part.only for name in expand(part.only))
        return replace(self, only=hostlist(tuple(names)))

    @property
    def allowed(self) -> str:
        """Return the allowed nodes for messages, by component."""
        return " : ".join(part.only or "any node" for part in self.parts) or self.only

    def part(self, number: int) -> SlurmRecord:
        """Return the record of one component."""
        return replace(self, **asdict(self.parts[number])) if number < len(self.parts) else self


class SlurmFiles(ScriptFolder[SlurmRecord]):
    record_type = SlurmRecord

    def write(self, launch: Launch, record: SlurmRecord, steps: Sequence[SrunStep]) -> None:
        """Write the job's files. `steps`: srun steps; none: the batch script runs the only task."""
        bound = [(_variable(number), part.only) for number, part in enumerate(record.parts)]
        words = ScriptWords(
            id="$SLURM_JOB_ID",
            nodes=",".join(got for got, _ in bound) or _NODELIST,
            bound=bound or [("$got", record.only)],
            rank="${SLURM_PROCID:-0}",
            setup=f"{_apart(len(record.parts))}{_UNSET}",
        )
        array = {} if launch.array_index is None else {"SLURM_ARRAY_TASK_ID": str(launch.array_index)}
        self.write_script(launch, words, self._run(steps), array)  # scripts for sbatch --array read the variable

    def _run(self, steps: Sequence[SrunStep]) -> list[str]:
        """Return the command that starts all tasks: one srun, components separated by `:`.

        The tasks' own commands are in files, because srun splits commands at a word `:`.
        """
        words: list[str] = []
        for step in steps or (SrunStep(0, ()),):
            words += [":", *step.words[1:]] if words else step.words
            words += self.task(step.task)
        return words

    def over_memory(self) -> bool:
        """Return True if Slurm reported the memory limit on the job's stderr."""
        size = self.sizes()[1]
        return b"exceeded memory limit" in self.read("stderr", max(0, size - 4096), 4096)


def _variable(component: int) -> str:
    return f"${{SLURM_JOB_NODELIST_HET_GROUP_{component}}}"


def _apart(components: int) -> str:
    """Return the line without which srun rejects components that request memory in different ways."""
    if not components:
        return ""
    places = ["", *(f"_{kind}_GROUP_{number}" for kind in ("HET", "PACK") for number in range(components))]
    return f"unset {' '.join(f'SLURM_MEM_PER_{each}{place}' for each in ('CPU', 'NODE', 'GPU') for place in places)}\n"


def step_words(tasks: int, slots: int, cores: int, *, component: int | None = None) -> tuple[str, ...]:
    """Return the srun command for the tasks; none for a single task, which needs no srun.

    `component`: of a heterogeneous job, where a single task needs srun too.
    """
    if tasks == 1 and component is None:
        return ()
    place = () if component is None else (f"--het-group={component}",)
    each = max(1, slots * max(1, cores) // tasks)
    return ("srun", *place, f"--ntasks={tasks}", f"--cpus-per-task={each}", "--overcommit", "--kill-on-bad-exit=0")


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
