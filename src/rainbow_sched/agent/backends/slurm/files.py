"""The directory of one Slurm job: batch script, record of the submission, start marker, result and output.

The directory must be visible on the nodes (option `spool`). The user's words are in files beside the batch script, so
none of them can be read as an #SBATCH line. The start marker is created with O_EXCL, so of two submissions of one tag
only the first runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.job_files import piece, script, size, write
from rainbow_sched.agent.backends.common.launches import clean_environment
from rainbow_sched.agent.backends.common.node_check import FUNCTIONS, allowed_words
from rainbow_sched.agent.backends.local.wrapper import write_whole
from rainbow_sched.agent.backends.slurm.jobs import ScriptExit
from rainbow_sched.agent.core.values import STREAMS, WRONG_NODES
from rainbow_sched.model.hostlist import collapse, expand
from rainbow_sched.model.request import Task

STARTED, ALIVE, EXIT, CANCEL, RECORD = "started", "alive", "exit", "cancel", "record.json"
WITHDRAWN = "withdrawn"  # content of a marker that prevents the start
HEARTBEAT_SECONDS = 10  # seconds between heartbeats
NODES = "nodes"
ALREADY_RAN = 113  # exit code of a repeated submission
NOT_ALLOWED = 114  # exit code on nodes that are not allowed

# `set -C` makes the shell create the marker with O_EXCL. `trap :` keeps this script alive while the job handles
# SIGTERM; the job's processes do not inherit it. GNU timeout exits with 124, or 137 after SIGKILL. `beat` ends with the
# script.
_BATCH = """\
#!/bin/sh
dir={dir}
(set -C; echo "$SLURM_JOB_ID" > "$dir/started") 2>/dev/null || exit {already}
began=$(date +%s)
beat() {{
    trap 'kill $nap; exit 0' TERM
    while kill -0 $$; do
        : > "$dir/alive"
        sleep {beat} & nap=$!
        wait $nap
    done
}}
beat > /dev/null 2>&1 &
beat=$!
trap : TERM
finish() {{
    kill $beat 2> /dev/null
    echo "$1 $began $(date +%s) $2" > "$dir/.exit" && mv "$dir/.exit" "$dir/exit"
    exit "$1"
}}
got={got}
echo "$got" > "$dir/nodes"
{check}{apart}unset SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_TIME_FORMAT
. "$dir/environment"
cd {cwd} || finish 126 cwd
{programs}{run}
code=$?
{limit}finish $code exit
"""
_LIMIT = (
    "[ $code -eq 124 ] || [ $code -eq 137 ] && [ $(($(date +%s) - began)) -ge {whole} ] && finish $code time-limit\n"
)
_MISSING = '{{ echo "rainbow: cannot start {named}: not found" >&2; finish 127 launch; }}'
_PROGRAM = f"command -v {{program}} > /dev/null || {_MISSING}\n"
_NODELIST = "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
_TASK = "RAINBOW_TASK_RANK=${{SLURM_PROCID:-0}}; export RAINBOW_TASK_RANK\nexec {command}\n"


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
class SlurmRecord:
    """The record of a submission, written before sbatch is called and again with the job id."""

    key: str
    asked: float  # seconds since the epoch
    native: str = ""
    gpus: int = 0  # per node
    cores: int = 0  # total; 0: whole nodes, or not known
    memory: int = 0  # MiB in total; 0: likewise
    duration: float | None = None
    only: str = ""  # hostlist of allowed nodes; empty: any
    parts: tuple[ComponentRecord, ...] = ()  # components of a heterogeneous job, in Slurm's order

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


def hostlist(names: Sequence[str]) -> str:
    return collapse(names) or ",".join(names)


class SlurmFiles:
    def __init__(self, root: Path, tag: str) -> None:
        self.tag = tag
        self.path = root / tag

    @property
    def script(self) -> Path:
        return self.path / "batch.sh"

    def create(self, launch: Launch, record: SlurmRecord, steps: Sequence[SrunStep]) -> None:
        """Write the job's files. `steps`: srun steps; none: the batch script runs the only task."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        environment = clean_environment(launch, dict(os.environ))
        if launch.array_index is not None:  # expected by scripts written for sbatch --array
            environment["SLURM_ARRAY_TASK_ID"] = str(launch.array_index)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        write(self.path / "environment", exports)
        commands = [self._task(number, task) for number, task in enumerate(launch.request.tasks)]
        duration = launch.request.duration
        words = self._step_words(steps)
        if duration is not None:
            words = ["timeout", "--kill-after=5", f"{duration:g}", *words]
        text = _BATCH.format(
            dir=shlex.quote(str(self.path)),
            already=ALREADY_RAN,
            beat=HEARTBEAT_SECONDS,
            got=_got(record),
            check=_check(record),
            apart=_apart(len(record.parts)),
            cwd=shlex.quote(launch.request.cwd or str(work)),
            programs="".join(
                _PROGRAM.format(program=shlex.quote(program), named=_within_double_quotes(program))
                for program in dict.fromkeys(command[0] for command in commands)
            ),
            run=shlex.join(words),
            limit="" if duration is None else _LIMIT.format(whole=int(duration)),
        )
        write(self.script, text, mode=0o700)
        self.put(record)

    def _task(self, number: int, task: Task) -> list[str]:
        """Write the script of a task and return its command, hidden from srun, which splits commands at a word `:`."""
        command = list(task.command) or script(self.path / (f"script{number}" if number else "script"), task.script)
        write(self.path / f"task{number}.sh", _TASK.format(command=shlex.join(command)))
        return command

    def _step_words(self, steps: Sequence[SrunStep]) -> list[str]:
        """Return the command that starts all tasks: one srun, components separated by `:`."""
        words: list[str] = []
        for step in steps or (SrunStep(0, ()),):
            words += [":", *step.words[1:]] if words else step.words
            words += ["/bin/sh", str(self.path / f"task{step.task}.sh")]
        return words

    def put(self, record: SlurmRecord) -> None:
        write_whole(self.path / RECORD, asdict(record))

    def record(self) -> SlurmRecord | None:
        try:
            data = json.loads((self.path / RECORD).read_text())
            return SlurmRecord(**{**data, "parts": tuple(ComponentRecord(**part) for part in data.get("parts", ()))})
        except FileNotFoundError:
            return None

    def begun(self) -> str | None:
        """Return the Slurm id of the job that started, or None."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / STARTED).read_text().strip()
        return None

    def withdraw(self) -> bool:
        """Prevent the job from starting by creating its marker; False if it has started."""
        try:
            with os.fdopen(os.open(self.path / STARTED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{WITHDRAWN}\n")
        except FileExistsError:
            return False
        return True

    def heartbeat(self) -> tuple[object, ...] | None:
        """Return values that change while the job lives; None if its script has no heartbeat."""
        with contextlib.suppress(FileNotFoundError):
            return ((self.path / ALIVE).stat().st_mtime_ns, *self.sizes())
        return None

    def begun_at(self) -> float | None:
        """Return the start time."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / STARTED).stat().st_mtime
        return None

    def left(self) -> ScriptExit | None:
        """Return what the batch script wrote at its end, or None."""
        try:
            code, began, ended, cause = (self.path / EXIT).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return ScriptExit(code=int(code), started=float(began), ended=float(ended), cause=cause)

    def nodes(self) -> str:
        """Return the nodes of the job from its script; empty before the start."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / NODES).read_text().strip()
        return ""

    def over_memory(self) -> bool:
        """Return True if Slurm reported the memory limit on the job's stderr."""
        size = self.sizes()[1]
        return b"exceeded memory limit" in self.read("stderr", max(0, size - 4096), 4096)

    def command(self) -> str:
        """Return the program's name for messages, or several for several tasks."""
        names = []
        with contextlib.suppress(OSError):
            for line in self.script.read_text().splitlines():
                if line.startswith("command -v "):
                    names.append(shlex.split(line)[2])
        return " or ".join(names)

    def request_end(self) -> None:
        """Note that Rainbow ended the job."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / CANCEL).touch(mode=0o600)

    def end_requested(self) -> bool:
        """Return True if Rainbow ended the job."""
        return (self.path / CANCEL).exists()

    def change_marker(self) -> tuple[object, ...]:
        """Return values that change when a running job writes output or ends."""
        return (*self.sizes(), (self.path / EXIT).exists())

    def sizes(self) -> tuple[int, int]:
        return size(self.path / STREAMS[0]), size(self.path / STREAMS[1])

    def read(self, stream: str, offset: int, limit: int) -> bytes:
        return piece(self.path / stream, offset, limit)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _got(record: SlurmRecord) -> str:
    """Return the batch script's expression for all nodes of the job."""
    return ",".join(_variable(number) for number in range(len(record.parts))) or _NODELIST


def _variable(component: int) -> str:
    return f"${{SLURM_JOB_NODELIST_HET_GROUP_{component}}}"


def _apart(components: int) -> str:
    """Return the line without which srun rejects components that request memory in different ways."""
    if not components:
        return ""
    places = ["", *(f"_{kind}_GROUP_{number}" for kind in ("HET", "PACK") for number in range(components))]
    return f"unset {' '.join(f'SLURM_MEM_PER_{each}{place}' for each in ('CPU', 'NODE', 'GPU') for place in places)}\n"


def _check(record: SlurmRecord) -> str:
    """Return the lines that end a job on nodes that are not allowed, before the user's commands are read."""
    bound = [(_variable(number), part.only) for number, part in enumerate(record.parts)] or [("$got", record.only)]
    lines = [
        f'[ -z "$(rb_outside "{got}" {allowed_words(expand(only))})" ] || finish {NOT_ALLOWED} {WRONG_NODES}\n'
        for got, only in bound
        if only
    ]
    return "".join([FUNCTIONS, *lines]) if lines else ""


def step_words(tasks: int, slots: int, cores: int, *, component: int | None = None) -> tuple[str, ...]:
    """Return the srun command for the tasks; none for a single task, which needs no srun.

    `component`: of a heterogeneous job, where a single task needs srun too.
    """
    if tasks == 1 and component is None:
        return ()
    place = () if component is None else (f"--het-group={component}",)
    each = max(1, slots * max(1, cores) // tasks)
    return ("srun", *place, f"--ntasks={tasks}", f"--cpus-per-task={each}", "--overcommit", "--kill-on-bad-exit=0")


def bad_environment(environment: Mapping[str, str]) -> str | None:
    """Return why a shell cannot set the environment, or None."""
    for name, value in environment.items():
        if not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
            return f"{name[:40]!r} is not a valid name of an environment variable"
        if "\0" in value:
            return f"the environment variable {name} contains a zero byte"
    return None


def _within_double_quotes(word: str) -> str:
    return "".join(letter for letter in word if letter.isalnum() or letter in "-_./+ ")[:100]
