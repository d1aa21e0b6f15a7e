"""The batch script of a job and what it leaves in the job's folder, for managers that run a script on shared files.

The user's words are in files beside the script, so none of them can be read as a directive of the manager. The start
marker is created with O_EXCL, so of two submissions of one tag only the first runs.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.exit_results import exited, not_found, over_limit
from rainbow_sched.agent.backends.common.host_binding import FUNCTIONS, allowed_words
from rainbow_sched.agent.backends.common.job_folder import STARTED, BatchFolder, RecordT, script, write
from rainbow_sched.agent.backends.common.launches import clean_environment
from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import Failure
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.hostlist import expand

ALIVE, EXIT, NODES = "alive", "exit", "nodes"
WITHDRAWN = "withdrawn"  # content of a marker that prevents the start
HEARTBEAT_SECONDS = 10  # seconds between heartbeats
ALREADY_RAN = 113  # exit code of a repeated submission
NOT_ALLOWED = 114  # exit code on nodes that are not allowed

# `set -C` makes the shell create the marker with O_EXCL. `trap :` keeps this script alive while the job handles
# SIGTERM; the job's processes do not inherit it. GNU timeout exits with 124, or 137 after SIGKILL. `beat` ends with the
# script.
_BATCH = """\
#!/bin/sh
dir={dir}
(set -C; echo "{id}" > "$dir/started") 2>/dev/null || exit {already}
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
{check}{setup}. "$dir/environment"
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
_TASK = "RAINBOW_TASK_RANK={rank}; export RAINBOW_TASK_RANK\nexec {command}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptExit:
    """What a batch script wrote at its end."""

    code: int
    started: float | None = None
    ended: float | None = None
    cause: str = "exit"  # exit, time-limit, launch (command not found), cwd (no working directory) or wrong-nodes

    def result(self) -> Result:
        ended = exited(self.code, started=self.started, ended=self.ended)
        if self.cause == "time-limit":
            return replace(ended, failure=Failure.TIME_LIMIT, reason=over_limit(None))
        if self.cause in ("launch", "cwd"):
            return replace(ended, failure=Failure.LAUNCH, reason="its working directory cannot be used")
        return ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptWords:
    """Expressions of the shell in a manager's jobs."""

    id: str  # the job's id
    nodes: str  # hostlist of all nodes of the job
    bound: Sequence[tuple[str, str]] = ()  # hostlist of nodes of the job, and hostlist on which it may run
    rank: str = "0"  # of a task
    setup: str = ""  # lines before the job's environment is read


class ScriptFolder(BatchFolder[RecordT]):
    """The directory of a job with a batch script."""

    @property
    def script(self) -> Path:
        return self.path / "batch.sh"

    def task(self, number: int) -> list[str]:
        """Return the command that runs a task."""
        return ["/bin/sh", str(self.path / f"task{number}.sh")]

    def write_script(
        self, launch: Launch, words: ScriptWords, run: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Write the batch script, which runs `run`, and the files beside it. `environment`: additional variables."""
        exported = {**clean_environment(launch, dict(os.environ)), **(environment or {})}
        write(
            self.path / "environment",
            "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exported.items()),
        )
        programs = []
        for number, task in enumerate(launch.request.tasks):
            command = list(task.command) or script(self.path / (f"script{number}" if number else "script"), task.script)
            programs.append(command[0])
            write(self.path / f"task{number}.sh", _TASK.format(rank=words.rank, command=shlex.join(command)))
        duration = launch.request.duration
        if duration is not None:
            run = ["timeout", "--kill-after=5", f"{duration:g}", *run]
        text = _BATCH.format(
            dir=shlex.quote(str(self.path)),
            id=words.id,
            already=ALREADY_RAN,
            beat=HEARTBEAT_SECONDS,
            got=words.nodes,
            check=_check(words.bound),
            setup=words.setup,
            cwd=shlex.quote(self.make_work(launch)),
            programs="".join(
                _PROGRAM.format(program=shlex.quote(program), named=_within_double_quotes(program))
                for program in dict.fromkeys(programs)
            ),
            run=shlex.join(run),
            limit="" if duration is None else _LIMIT.format(whole=int(duration)),
        )
        write(self.script, text, mode=0o700)

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
        return self.text(NODES) or ""

    def command(self) -> str:
        """Return the program's name for messages, or several for several tasks."""
        names = []
        with contextlib.suppress(OSError):
            for line in self.script.read_text().splitlines():
                if line.startswith("command -v "):
                    names.append(shlex.split(line)[2])
        return " or ".join(names)

    def explain(self, ended: Result) -> Result:
        """Add command and limit from the job's files to the reason of a result."""
        left = self.left()
        if left is not None and left.cause == "launch":
            return replace(ended, reason=not_found(self.command()))
        if left is not None and left.cause == "time-limit":
            return replace(ended, reason=over_limit(self.recorded().duration))
        return ended

    def change_marker(self) -> tuple[object, ...]:
        return (*self.sizes(), (self.path / EXIT).exists())


def _check(bound: Sequence[tuple[str, str]]) -> str:
    """Return the lines that end a job on nodes that are not allowed, before the user's commands are read."""
    lines = [
        f'[ -z "$(rb_outside "{got}" {allowed_words(expand(only))})" ] || finish {NOT_ALLOWED} {WRONG_NODES}\n'
        for got, only in bound
        if only
    ]
    return "".join([FUNCTIONS, *lines]) if lines else ""


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
