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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rainbow.agent.backends.base import Launch
from rainbow.agent.backends.job_files import piece, script, size, write
from rainbow.agent.backends.launches import clean_environment, copies
from rainbow.agent.backends.node_check import FUNCTIONS, allowed_words
from rainbow.agent.backends.slurm_jobs import Exit
from rainbow.agent.values import STREAMS, WRONG_NODES
from rainbow.agent.wrapper import write_whole
from rainbow.model.hostlist import expand

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
got=${{SLURM_JOB_NODELIST:-$SLURM_NODELIST}}
echo "$got" > "$dir/nodes"
{check}unset SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_TIME_FORMAT
. "$dir/environment"
cd {cwd} || finish 126 cwd
command -v {program} > /dev/null || {{ echo "rainbow: cannot start {named}: not found" >&2; finish 127 launch; }}
{run}
code=$?
{limit}finish $code exit
"""
_LIMIT = (
    "[ $code -eq 124 ] || [ $code -eq 137 ] && [ $(($(date +%s) - began)) -ge {whole} ] && finish $code time-limit\n"
)
_TASK = 'RAINBOW_TASK_RANK=${SLURM_PROCID:-0}; export RAINBOW_TASK_RANK\nexec "$@"\n'


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


class SlurmFiles:
    """The files of one job."""

    def __init__(self, root: Path, tag: str) -> None:
        self.tag = tag
        self.path = root / tag

    @property
    def script(self) -> Path:
        """The batch script."""
        return self.path / "batch.sh"

    def create(self, launch: Launch, record: Record, step: tuple[str, ...]) -> None:
        """Write down what is to run. `step` is the srun that starts several tasks; empty for one task."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = self.path / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        environment = clean_environment(launch, dict(os.environ))
        if launch.array_index is not None:  # scripts that were written for sbatch --array ask for it
            environment["SLURM_ARRAY_TASK_ID"] = str(launch.array_index)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        write(self.path / "environment", exports)
        write(self.path / "task.sh", _TASK)
        task = launch.request.tasks[0]
        command = list(task.command) or script(self.path / "script", task.script)
        duration = launch.request.duration
        words = [*step, "/bin/sh", str(self.path / "task.sh"), *command]
        if duration is not None:
            words = ["timeout", "--kill-after=5", f"{duration:g}", *words]
        text = _BATCH.format(
            dir=shlex.quote(str(self.path)),
            already=ALREADY_RAN,
            beat=BEAT,
            check=_check(record),
            cwd=shlex.quote(launch.request.cwd or str(work)),
            program=shlex.quote(command[0]),
            named=_within_double_quotes(command[0]),
            run=shlex.join(words),
            limit="" if duration is None else _LIMIT.format(whole=int(duration)),
        )
        write(self.script, text, mode=0o700)
        self.put(record)

    def put(self, record: Record) -> None:
        """Write the record, whole and safe on disk."""
        write_whole(self.path / RECORD, asdict(record))

    def record(self) -> Record | None:
        """What was submitted, or None."""
        try:
            return Record(**json.loads((self.path / RECORD).read_text()))
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
        """The name of the program that it was to run, for messages."""
        with contextlib.suppress(OSError):
            for line in self.script.read_text().splitlines():
                if line.startswith("command -v "):
                    return shlex.split(line)[2]
        return ""

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


def _check(record: Record) -> str:
    """The lines that end a job which is bound to nodes and was given others, before anything of the user's is read."""
    if not record.only:
        return ""
    allowed = allowed_words(expand(record.only))
    return f'{FUNCTIONS}[ -z "$(rb_outside "$got" {allowed})" ] || finish {NOT_ALLOWED} {WRONG_NODES}\n'


def step_words(launch: Launch, slots: int, cores: int) -> tuple[str, ...]:
    """The srun that starts a job's tasks on what it was given; none for a single task, which runs as it is."""
    tasks = copies(launch.request, launch.request.tasks[0])
    if tasks == 1:
        return ()
    each = max(1, slots * max(1, cores) // tasks)
    return ("srun", f"--ntasks={tasks}", f"--cpus-per-task={each}", "--overcommit", "--kill-on-bad-exit=0")


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
