"""The directory of one local job: launch, resources, start marker, result and output."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from rainbow_sched.agent.backends.base import Launch
from rainbow_sched.agent.backends.common.exit_results import exited
from rainbow_sched.agent.backends.common.job_folder import JobFolder, script
from rainbow_sched.agent.backends.common.launches import clean_environment, copies
from rainbow_sched.agent.backends.local.cgroups import NOWHERE, CgroupParent, JobCgroup
from rainbow_sched.agent.backends.local.machine import Machine, Place, QueuedJob
from rainbow_sched.agent.backends.local.wrapper import EXIT, MARKER, boot_id, start_time, write_whole
from rainbow_sched.agent.core.values import Result
from rainbow_sched.jobspecs.canonical import from_json, to_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.protocol.messages import AllowedHosts

GONE = ".gone-"  # prefix of directories being removed
GRACE_SECONDS = 5.0  # seconds between SIGTERM and SIGKILL


class JobFiles(JobFolder):
    def create(self, launch: Launch, environment: Mapping[str, str]) -> QueuedJob:
        """Write the launch file; the job is submitted and on disk when this returns."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        queued = QueuedJob(launch.request, launch.allowed, time.time_ns())
        tasks: list[list[str]] = []
        for number, task in enumerate(launch.request.tasks):
            argv = list(task.command) or script(self.path / f"script{number}", task.script)
            tasks += [argv] * copies(launch.request, task)
        write_whole(
            self.path / "launch.json",
            {
                "tasks": tasks,
                "environment": clean_environment(launch, environment),
                "cwd": self.make_work(launch),
                "limit": launch.request.duration,
                "grace": GRACE_SECONDS,
                "order": queued.order,
                "guard": launch.guard,
                "request": to_json(launch.request),
                "only": [launch.allowed.of(group) for group in range(len(launch.request.groups))],
                "checked": launch.allowed.checked,
            },
        )
        return queued

    def queued(self) -> QueuedJob:
        """Read the launch file."""
        launch = json.loads((self.path / "launch.json").read_text())
        only = tuple(GroupHosts(group, tuple(hosts)) for group, hosts in enumerate(launch.get("only", [])) if hosts)
        allowed = AllowedHosts(only, launch.get("checked", False))  # an older agent wrote neither
        return QueuedJob(from_json(launch["request"]), allowed, int(launch["order"]))

    def put_place(self, place: Place, machine: Machine, grounds: CgroupParent = NOWHERE) -> None:
        """Write the job's resources."""
        group = str(Path(grounds.path) / self.tag) if grounds.path else ""
        environment = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, place.gpus))}
        write_whole(
            self.path / "place.json",
            {
                "cpus": place.cpus,
                "gpus": place.gpus,
                "memory": place.memory,
                "holds": machine.holdings(place),
                "hosts": place.hosts,
                "environment": environment,
                "cgroup": group,
            },
            safe=False,
        )

    def group(self) -> JobCgroup | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            path = json.loads((self.path / "place.json").read_text()).get("cgroup")
            return JobCgroup(Path(path)) if path else None
        return None

    def place(self, machine: Machine) -> Place:
        """Read the job's resources."""
        with contextlib.suppress(FileNotFoundError):
            data = json.loads((self.path / "place.json").read_text())
            hosts = tuple(map(tuple, data.get("hosts", [])))
            return Place(machine.held(data["holds"]), tuple(data["cpus"]), tuple(data["gpus"]), data["memory"], hosts)
        return Place()

    def begun(self) -> dict[str, object] | None:
        """Return the start marker, or None."""
        return self._json(MARKER)

    def runner(self) -> int | None:
        """Return the process id of the runner if it is alive."""
        marker = self.begun()
        if marker is None or marker["boot"] != boot_id():
            return None
        pid = int(str(marker["pid"]))
        return pid if start_time(pid) == marker["start"] else None

    def result(self) -> Result | None:
        """Return the result, or None. Only for a job without a runner, or with a result file."""
        left = self.left()
        if left is not None:
            return left
        alive = self.runner() is not None
        left = self.left()  # written by a runner that has just ended
        if left is not None:
            return left
        marker = self.begun()
        if marker is None or alive:
            return None
        restarted = marker["boot"] != boot_id()
        return Result(
            state=AttemptState.FAILED,
            failure=Failure.NODE if restarted else Failure.UNKNOWN,
            reason="the machine rebooted" if restarted else "its runner was killed, so its outcome is unknown",
            started_at=float(str(marker["at"])),
        )

    def left(self) -> Result | None:
        """Return the result in the file, or None."""
        ended = self._json(EXIT)
        return None if ended is None else _result(ended)

    def end_before_start(self, cause: str, reason: str = "") -> None:
        """Write the result of a job that never started."""
        ended = {"code": None, "cause": cause, "reason": reason or cause, "started": None, "ended": time.time()}
        write_whole(self.path / EXIT, ended)

    def remove(self) -> None:
        """Remove the directory. It is renamed first, so that an interrupted removal does not look like a job."""
        doomed = self.path.with_name(f"{GONE}{self.tag}")
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(doomed, ignore_errors=True)
            self.path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def _json(self, name: str) -> dict[str, object] | None:
        text = self.text(name)
        value: dict[str, object] | None = None if text is None else json.loads(text)
        return value


_FAILURES = {"time-limit": Failure.TIME_LIMIT, "memory": Failure.MEMORY, "launch": Failure.LAUNCH}
_STATES = {
    "cancelled": AttemptState.CANCELLED,
    "out-of-touch": AttemptState.PREEMPTED,
    "no-room": AttemptState.RETURNED,
    WRONG_NODES: AttemptState.RETURNED,
}


def _result(ended: Mapping[str, object]) -> Result:
    """Return the result from the file of the runner or the backend."""
    started, stopped = (None if ended[name] is None else float(str(ended[name])) for name in ("started", "ended"))
    code, cause = None if ended["code"] is None else int(str(ended["code"])), str(ended["cause"])
    if cause == "exit" and code is not None:
        return exited(code, started=started, ended=stopped)
    return Result(
        state=_STATES.get(cause, AttemptState.FAILED),
        exit_code=code,
        failure=_FAILURES.get(cause),
        reason=str(ended["reason"]),
        started_at=started,
        ended_at=stopped,
        code=WRONG_NODES if cause == WRONG_NODES else "",
    )
