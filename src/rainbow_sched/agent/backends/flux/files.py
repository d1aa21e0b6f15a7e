"""The directory of one Flux job, and the state of the attempt by Flux and by these files.

The files are a script, the record of the submission, the start marker, exit codes and output.

Flux starts the script once per task, in /tmp if it cannot enter the working directory, so the script enters it again.
The first task links a start marker with the job's id into place; tasks of another job with the same tag see that id and
exit, so a repeated submission runs once. Output files are named by job id for the same reason. The script uses the
agent's PATH, independent of the job's environment.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.batch_script import ALREADY_RAN, NOT_ALLOWED
from rainbow_sched.agent.backends.common.exit_results import exited, not_found
from rainbow_sched.agent.backends.common.host_binding import FUNCTIONS, allowed_words, wrong_nodes
from rainbow_sched.agent.backends.common.job_folder import BatchFolder, SubmitRecord, script, write
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.jobs import FluxJob, job_name, job_number, result
from rainbow_sched.agent.core.values import Phase, Update
from rainbow_sched.discovery.flux import FluxNode
from rainbow_sched.model.hostlist import collapse, expand

MISSING, NO_FOLDER, VERDICT = "missing", "no-folder", "verdict"
R_TIMEOUT_SECONDS = 30  # timeout for reading the job's R
_PREFIX = {"stdout": "out", "stderr": "err"}
_SCRIPT = """\
#!/bin/sh
own_path=$PATH
export PATH={path}
dir={dir}
rank=${{FLUX_TASK_RANK:-0}}
mkdir -p "$dir"
claim="$dir/.claim.$FLUX_JOB_ID.$rank"
echo "$FLUX_JOB_ID" > "$claim" && ln "$claim" "$dir/started" 2> /dev/null
rm -f "$claim"
[ "$(cat "$dir/started")" = "$FLUX_JOB_ID" ] || exit {already}
[ "$rank" -lt {tasks} ] || exit 0
{check}PATH=$own_path
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
PATH={path}
echo "$code" > "$dir/.exit.$rank" && mv "$dir/.exit.$rank" "$dir/exit.$rank"
exit $code
"""
# The first task's verdict counts for all, so that either all tasks start the command or none. If the job's R cannot be
# read, a job on one node uses that node's own name.
_CHECK = """\
rb_r=$(env -i {environment} "FLUX_URI=$FLUX_URI" timeout {seconds} {flux} job info "$FLUX_JOB_ID" R 2> /dev/null)
rb_r=$(printf '%s' "$rb_r" | tr -d ' \\t\\n')
case $rb_r in
*'"nodelist":['*) rb_got=${{rb_r#*'"nodelist":['}}; rb_got=$(printf '%s' "${{rb_got%%'"]'*}}" | tr -d '"') ;;
*) rb_got= ;;
esac
if [ -z "$rb_got" ] && [ "$FLUX_JOB_NNODES" = 1 ]; then
    rb_got=$(uname -n)
    [ -z "$(rb_outside "$rb_got" {allowed})" ] || rb_got=${{rb_got%%.*}}
fi
if [ -z "$(rb_outside "$rb_got" {allowed})" ]; then rb_verdict=allowed; else rb_verdict="not:$rb_got"; fi
echo "$rb_verdict" > "$claim" && ln "$claim" "$dir/verdict" 2> /dev/null
rm -f "$claim"
rb_verdict=
read -r rb_verdict < "$dir/verdict"
[ "$rb_verdict" = allowed ] || {{ echo "rainbow: on nodes that are not allowed; not started" >&2; exit {code}; }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxRecord(SubmitRecord):
    tasks: int = 1
    gpus: int = 0  # total


class FluxFiles(BatchFolder[FluxRecord]):
    record_type = FluxRecord

    def write(self, launch: Launch, record: FluxRecord, flux: FluxCommands) -> tuple[tuple[str, ...], str]:
        """Write the job's files; return the command for Flux, our script with the user's command, and its directory."""
        work = self.make_work(launch)
        write(
            self.path / "run.sh",
            _SCRIPT.format(
                dir=shlex.quote(str(self.path)),
                cwd=shlex.quote(work),
                already=ALREADY_RAN,
                tasks=record.tasks,
                check=_check(record, flux),
                path=shlex.quote(f"{flux.in_jobs['PATH']}:{os.defpath}".lstrip(":")),
            ),
        )
        task = launch.request.tasks[0]
        command = task.command or script(self.path / "script", task.script)
        return ("/bin/sh", str(self.path / "run.sh"), *command), work

    def pattern(self, stream: str) -> str:
        """Return the path for an output stream, with Flux's template for the job id."""
        return f"{self.path}/{_PREFIX[stream]}.{{{{id.dec}}}}"

    def begun(self) -> str | None:
        """Return the id of the job that started, in the form of `job_name`, or None."""
        number = job_number(super().begun() or "")
        return None if number is None else job_name(number)

    def forbidden_nodes(self) -> str | None:
        """Return the nodes of a job that was not started because they are not allowed, or None."""
        verdict, _, got = (self.text(VERDICT) or "").partition(":")
        return got if verdict == "not" else None

    def problem_text(self) -> str:
        """Return why a task could not start its command; empty if it could."""
        if (self.path / NO_FOLDER).exists():
            return "its working directory cannot be used"
        command = self.text(MISSING)
        return "" if command is None else not_found(command)

    def exit_code(self) -> int | None:
        """Return the highest exit code; None if a task has left none."""
        try:
            return max(int((self.path / f"exit.{rank}").read_text()) for rank in range(self.recorded().tasks))
        except (FileNotFoundError, ValueError):
            return None

    def native(self) -> str | None:
        """Return the id of the job that started, else the recorded one; None if there is none."""
        return self.begun() or self.recorded().native or None

    def outputs(self) -> tuple[Path, Path]:
        """Return the output files of the job that started."""
        number = job_number(self.native() or "")
        return self.path / f"{_PREFIX['stdout']}.{number}", self.path / f"{_PREFIX['stderr']}.{number}"

    def change_marker(self) -> tuple[object, ...]:
        return (*self.sizes(), self.exit_code())

    def update(self, job: FluxJob | None, nodes: Sequence[FluxNode] = ()) -> Update | None:
        """Return the attempt's state; None if neither Flux nor the files have it. `nodes` are the instance's."""
        if job is None:
            return self._from_files()
        ended = None
        if job.phase is Phase.ENDED:
            if job.code == ALREADY_RAN and self.begun() not in (None, job.native):
                return None  # a repeated submission that did not run
            record, got = self.recorded(), self.forbidden_nodes()
            if got is not None and job.result != "CANCELED":
                ended = wrong_nodes(got or _node_list(job, nodes), record.only, "Flux", job.ended)
            else:
                ended = result(
                    job, limit=record.duration, problem_text=self.problem_text(), began=self.begun() is not None
                )
        return Update(
            tag=self.tag,
            phase=job.phase,
            native=job.native,
            result=ended,
            started_at=job.started,
            sizes=self.sizes(),
            nodes=_node_list(job, nodes) if job.phase is not Phase.SUBMITTED else "",
        )

    def _from_files(self) -> Update | None:
        """Return the state of a job that Flux has purged, from the exit codes of its tasks."""
        begun, code, got = self.begun(), self.exit_code(), self.forbidden_nodes()
        if begun is None or (code is None and got is None):
            return None
        ended = wrong_nodes(got or "", self.recorded().only, "Flux") if code is None else exited(code)
        return Update(tag=self.tag, phase=Phase.ENDED, native=begun, result=ended, sizes=self.sizes())


def _node_list(job: FluxJob, nodes: Sequence[FluxNode]) -> str:
    """Return a job's nodes as a hostlist: from Flux, else by its ranks."""
    ranks = frozenset(job.on)
    return job.node_list or collapse([node.name for node in nodes if node.rank in ranks]) or ""


def _check(record: FluxRecord, flux: FluxCommands) -> str:
    """Return the lines that end the tasks of a job on nodes that are not allowed, before its command starts."""
    if not record.only:
        return ""
    return FUNCTIONS + _CHECK.format(
        environment=shlex.join(f"{name}={value}" for name, value in flux.in_jobs.items()),
        flux=shlex.quote(flux.path),
        seconds=R_TIMEOUT_SECONDS,
        allowed=allowed_words(expand(record.only)),
        code=NOT_ALLOWED,
    )


def gpus_by_job(root: Path) -> dict[str, int]:
    """Return the gpus of our started jobs by Flux id: Flux does not list them."""
    found = {}
    for path in root.iterdir():
        files = FluxFiles(root, path.name)
        begun, record = files.begun(), files.record()
        if begun is not None and record is not None:
            found[begun] = record.gpus
    return found
