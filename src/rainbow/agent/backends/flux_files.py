"""One directory per Flux job: its script, what was submitted, whether it began, how its tasks ended, its output.

Flux starts the script once per task, in /tmp if it cannot enter the working directory, so
the script enters it again. The first task links a start marker with the job's id into place;
tasks of another job with the same tag see that id and leave, so that a doubled submission
runs once. Output goes to files named by the job's id for the same reason.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from rainbow.agent.backends.base import Launch
from rainbow.agent.backends.endings import not_found
from rainbow.agent.backends.flux_jobs import ALREADY_RAN, job_number
from rainbow.agent.backends.job_files import piece, script, size, write
from rainbow.agent.wrapper import write_whole

STARTED, RECORD, MISSING, NO_FOLDER = "started", "record.json", "missing", "no-folder"
_PREFIX = {"stdout": "out", "stderr": "err"}
_SCRIPT = """\
#!/bin/sh
dir={dir}
rank=${{FLUX_TASK_RANK:-0}}
mkdir -p "$dir"
claim="$dir/.claim.$FLUX_JOB_ID.$rank"
echo "$FLUX_JOB_ID" > "$claim" && ln "$claim" "$dir/started" 2> /dev/null
rm -f "$claim"
[ "$(cat "$dir/started")" = "$FLUX_JOB_ID" ] || exit {already}
[ "$rank" -lt {tasks} ] || exit 0
trap : TERM
RAINBOW_TASK_RANK=$rank
export RAINBOW_TASK_RANK
if ! cd {cwd} 2> /dev/null; then
    echo "rainbow: cannot enter the working directory" >&2
    : > "$dir/no-folder"
    exit 126
fi
if ! command -v "$1" > /dev/null; then
    echo "rainbow: cannot start $1: not found" >&2
    echo "$1" > "$dir/missing"
    exit 127
fi
"$@"
code=$?
echo "$code" > "$dir/.exit.$rank" && mv "$dir/.exit.$rank" "$dir/exit.$rank"
exit $code
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was submitted; written before Flux is asked, and again with the id after."""

    key: str
    asked: float  # seconds since the epoch
    native: str = ""
    tasks: int = 1
    duration: float | None = None
    gpus: int = 0  # in all


class FluxFiles:
    """The files of one job."""

    def __init__(self, root: Path, tag: str) -> None:
        self.tag = tag
        self.path = root / tag

    def create(self, launch: Launch, record: Record) -> tuple[str, ...]:
        """Write down what is to run; returns the command that Flux is given: our script with the user's words."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "work").mkdir(mode=0o700, exist_ok=True)
        write(
            self.path / "run.sh",
            _SCRIPT.format(
                dir=shlex.quote(str(self.path)),
                cwd=shlex.quote(launch.request.cwd or self.work),
                already=ALREADY_RAN,
                tasks=record.tasks,
            ),
        )
        task = launch.request.tasks[0]
        command = task.command or script(self.path / "script", task.script)
        self.put(record)
        return ("/bin/sh", str(self.path / "run.sh"), *command)

    @property
    def work(self) -> str:
        """The folder a job begins in if it names none."""
        return str(self.path / "work")

    def pattern(self, stream: str) -> str:
        """Where Flux is to write a stream, with its own word for the job's id."""
        return f"{self.path}/{_PREFIX[stream]}.{{{{id.dec}}}}"

    def put(self, record: Record) -> None:
        """Write the record, whole and safe on disk."""
        write_whole(self.path / RECORD, asdict(record))

    def record(self) -> Record | None:
        """What was submitted, or None."""
        try:
            return Record(**json.loads((self.path / RECORD).read_text()))
        except FileNotFoundError:
            return None

    def begun(self) -> int | None:
        """The id of the job that began, or None."""
        with contextlib.suppress(FileNotFoundError):
            return job_number((self.path / STARTED).read_text())
        return None

    def trouble(self) -> str:
        """Why a task could not start its command, or nothing."""
        if (self.path / NO_FOLDER).exists():
            return "its working directory cannot be used"
        with contextlib.suppress(FileNotFoundError):
            return not_found((self.path / MISSING).read_text().strip())
        return ""

    def exit_code(self) -> int | None:
        """The highest code of all tasks; None if not all of them left one."""
        record = self.record()
        codes = []
        for rank in range(record.tasks if record is not None else 1):
            try:
                codes.append(int((self.path / f"exit.{rank}").read_text()))
            except (FileNotFoundError, ValueError):
                return None
        return max(codes)

    def signs(self) -> tuple[object, ...]:
        """What changes when a running job writes output or ends, without asking Flux."""
        return (*self.sizes(self.begun() or 0), self.exit_code())

    def sizes(self, id: int) -> tuple[int, int]:
        """Bytes of stdout and stderr of job `id`."""
        return size(self.path / f"{_PREFIX['stdout']}.{id}"), size(self.path / f"{_PREFIX['stderr']}.{id}")

    def read(self, stream: str, offset: int, limit: int) -> bytes:
        """A piece of output of the job that began."""
        record = self.record()
        id = self.begun() or (job_number(record.native) if record is not None else None)
        return piece(self.path / f"{_PREFIX[stream]}.{id}", offset, limit)

    def remove(self) -> None:
        """All of it."""
        shutil.rmtree(self.path, ignore_errors=True)


def gpus_by_id(root: Path) -> dict[int, int]:
    """Our jobs that began, by Flux's id, with the gpus that each has in all: Flux does not tell those."""
    found = {}
    for path in root.iterdir():
        files = FluxFiles(root, path.name)
        begun, record = files.begun(), files.record()
        if begun is not None and record is not None:
            found[begun] = record.gpus
    return found
