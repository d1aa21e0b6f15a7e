"""The directory of one Slurm job, which must be visible on the nodes (option `spool`), and its srun steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.batch_script import ScriptFolder, ScriptWords
from rainbow_sched.agent.backends.common.host_binding import hostlist
from rainbow_sched.agent.backends.common.job_folder import SubmitRecord
from rainbow_sched.model.hostlist import expand

_NODELIST = "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
_UNSET = "unset SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_TIME_FORMAT\n"


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
    """The record of a submission to Slurm."""

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
