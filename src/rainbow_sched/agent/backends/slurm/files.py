"""One directory per Slurm job: what it runs, the batch script, what was submitted, whether it began, how it ended.

The directory must be visible on the nodes (option `spool`). The batch script is ours and the
user's words lie in files beside it, so nothing in them can be taken for an #SBATCH line. Its
start marker is made with O_EXCL, so of two submissions of one tag only the first runs.
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
from rainbow_sched.agent.backends.slurm.jobs import Exit
from rainbow_sched.agent.core.values import STREAMS, WRONG_NODES
from rainbow_sched.model.hostlist import collapse, expand
from rainbow_sched.model.request import Task

STARTED, ALIVE, EXIT, CANCEL, RECORD = "started", "alive", "exit", "cancel", "record.json"
WITHDRAWN = "withdrawn"  # instead of a job's id: it was marked as begun so that it never begins
BEAT = 10  # seconds between two signs of life
NODES = "nodes"
ALREADY_RAN = 113  # what the batch script of a doubled submission ends with
NOT_ALLOWED = 114  # what the batch script of a job on wrong nodes ends with

# `set -C` makes the shell open the marker with O_EXCL. `trap :` keeps this script alive while the job tidies up after
# SIGTERM; a job's own processes do not inherit it. GNU timeout exits with 124, or 137 when it had to kill. `beat` ends
# with the script, however that ends.
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
class Step:
    """What srun starts in one component."""

    task: int  # position in `Request.tasks`
    words: tuple[str, ...]  # srun and its options


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What was asked for one component of a heterogeneous job; see `Record` for the fields."""

    gpus: int = 0
    cores: int = 0
    memory: int = 0
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was submitted; written before sbatch is called, and again with the id after."""

    key: str
    asked: float  # seconds since the epoch
    native: str = ""
    gpus: int = 0  # on each node
    cores: int = 0  # in all, as the server counts them; 0: whole nodes, or not known
    memory: int = 0  # MiB in all; 0: likewise
    duration: float | None = None
    only: str = ""  # hostlist: where it may run; empty: on any node
    parts: tuple[Part, ...] = ()  # of a heterogeneous job: the same by component, in Slurm's order

    def whole(self) -> Record:
        """The record of a job that consists of its parts; of a single one that is all there is to say."""
        if len(self.parts) == 1:
            return replace(self.part(0), parts=())
        names = dict.fromkeys(name for part in self.parts if part.only for name in expand(part.only))
        return replace(self, only=hostlist(tuple(names)))

    @property
    def allowed(self) -> str:
        """Where it may run, for messages; of several components each."""
        return " : ".join(part.only or "any node" for part in self.parts) or self.only

    def part(self, number: int) -> Record:
        """The record of one component."""
        return replace(self, **asdict(self.parts[number])) if number < len(self.parts) else self


def hostlist(names: Sequence[str]) -> str:
    """Names of nodes as one word."""
    return collapse(names) or ",".join(names)


class SlurmFiles:
    """The files of one job."""

    def __init__(self, root: Path, tag: str) -> None:
        self.tag = tag
        self.path = root / tag

    @property
    def script(self) -> Path:
        """The batch script."""
        return self.path / "batch.sh"

    def create(self, launch: Launch, record: Record, steps: Sequence[Step]) -> None:
        """Write down what is to run. `steps`: what srun starts; none: the batch script runs the one task itself."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        environment = clean_environment(launch, dict(os.environ))
        if launch.array_index is not None:  # scripts that were written for sbatch --array ask for it
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
            beat=BEAT,
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
        """Write the script of one task; its command. srun does not see that, as a word `:` would end it there."""
        command = list(task.command) or script(self.path / (f"script{number}" if number else "script"), task.script)
        write(self.path / f"task{number}.sh", _TASK.format(command=shlex.join(command)))
        return command

    def _step_words(self, steps: Sequence[Step]) -> list[str]:
        """The command that starts all tasks: one srun, with a `:` before each component but the first."""
        words: list[str] = []
        for step in steps or (Step(0, ()),):
            words += [":", *step.words[1:]] if words else step.words
            words += ["/bin/sh", str(self.path / f"task{step.task}.sh")]
        return words

    def put(self, record: Record) -> None:
        """Write the record, whole and safe on disk."""
        write_whole(self.path / RECORD, asdict(record))

    def record(self) -> Record | None:
        """What was submitted, or None."""
        try:
            told = json.loads((self.path / RECORD).read_text())
            return Record(**{**told, "parts": tuple(Part(**part) for part in told.get("parts", ()))})
        except FileNotFoundError:
            return None

    def begun(self) -> str | None:
        """The id of the Slurm job that began, or None."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / STARTED).read_text().strip()
        return None

    def withdraw(self) -> bool:
        """Make sure that it never begins, by making its start marker; False if it has begun."""
        try:
            with os.fdopen(os.open(self.path / STARTED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{WITHDRAWN}\n")
        except FileExistsError:
            return False
        return True

    def signs_of_life(self) -> tuple[object, ...] | None:
        """What changes while it lives; None if its script gives no such signs."""
        with contextlib.suppress(FileNotFoundError):
            return ((self.path / ALIVE).stat().st_mtime_ns, *self.sizes())
        return None

    def begun_at(self) -> float | None:
        """When it began."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / STARTED).stat().st_mtime
        return None

    def left(self) -> Exit | None:
        """What the batch script wrote at its end, or None."""
        try:
            code, began, ended, cause = (self.path / EXIT).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return Exit(code=int(code), started=float(began), ended=float(ended), cause=cause)

    def nodes(self) -> str:
        """The nodes that Slurm gave it, by its own script's word; empty if it has not begun."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / NODES).read_text().strip()
        return ""

    def over_memory(self) -> bool:
        """True if Slurm wrote into the job's errors that it took too much memory."""
        size = self.sizes()[1]
        return b"exceeded memory limit" in self.read("stderr", max(0, size - 4096), 4096)

    def command(self) -> str:
        """The name of the program that it was to run, for messages; of several tasks each."""
        names = []
        with contextlib.suppress(OSError):
            for line in self.script.read_text().splitlines():
                if line.startswith("command -v "):
                    names.append(shlex.split(line)[2])
        return " or ".join(names)

    def ask_to_end(self) -> None:
        """Note that it was Rainbow who ended it."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / CANCEL).touch(mode=0o600)

    def asked_to_end(self) -> bool:
        """True if Rainbow ended it."""
        return (self.path / CANCEL).exists()

    def signs(self) -> tuple[object, ...]:
        """What changes when a running job writes output or ends, without asking Slurm."""
        return (*self.sizes(), (self.path / EXIT).exists())

    def sizes(self) -> tuple[int, int]:
        """Bytes of stdout and stderr."""
        return size(self.path / STREAMS[0]), size(self.path / STREAMS[1])

    def read(self, stream: str, offset: int, limit: int) -> bytes:
        """A piece of output."""
        return piece(self.path / stream, offset, limit)

    def remove(self) -> None:
        """All of it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _got(record: Record) -> str:
    """The word of the batch script that stands for all nodes it was given."""
    return ",".join(_variable(number) for number in range(len(record.parts))) or _NODELIST


def _variable(component: int) -> str:
    return f"${{SLURM_JOB_NODELIST_HET_GROUP_{component}}}"


def _apart(components: int) -> str:
    """The line without which srun would refuse components of which some ask for memory by node and some by cpu."""
    if not components:
        return ""
    places = ["", *(f"_{kind}_GROUP_{number}" for kind in ("HET", "PACK") for number in range(components))]
    return f"unset {' '.join(f'SLURM_MEM_PER_{each}{place}' for each in ('CPU', 'NODE', 'GPU') for place in places)}\n"


def _check(record: Record) -> str:
    """The lines that end a job which is bound to nodes and was given others, before anything of the user's is read."""
    bound = [(_variable(number), part.only) for number, part in enumerate(record.parts)] or [("$got", record.only)]
    lines = [
        f'[ -z "$(rb_outside "{got}" {allowed_words(expand(only))})" ] || finish {NOT_ALLOWED} {WRONG_NODES}\n'
        for got, only in bound
        if only
    ]
    return "".join([FUNCTIONS, *lines]) if lines else ""


def step_words(tasks: int, slots: int, cores: int, *, component: int | None = None) -> tuple[str, ...]:
    """The srun that starts so many tasks on what was given; none for a single task, which runs as it is.

    `component`: of a heterogeneous job; there one task is started by srun, too.
    """
    if tasks == 1 and component is None:
        return ()
    place = () if component is None else (f"--het-group={component}",)
    each = max(1, slots * max(1, cores) // tasks)
    return ("srun", *place, f"--ntasks={tasks}", f"--cpus-per-task={each}", "--overcommit", "--kill-on-bad-exit=0")


def bad_environment(environment: Mapping[str, str]) -> str | None:
    """Why a job's environment cannot be set by a shell, or None."""
    for name, value in environment.items():
        if not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
            return f"{name[:40]!r} is no name of an environment variable"
        if "\0" in value:
            return f"the environment variable {name} holds a zero byte"
    return None


def _within_double_quotes(word: str) -> str:
    return "".join(letter for letter in word if letter.isalnum() or letter in "-_./+ ")[:100]
