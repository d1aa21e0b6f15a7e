"""One job of the stand-in, in a process of its own: its tasks, its limit, its end."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

from instance import Instance, f58, tasks_of

CANCELED, TIMEOUT, FAILED, COMPLETED = "CANCELED", "TIMEOUT", "FAILED", "COMPLETED"


def run(path, number):
    job = json.loads((path / "jobs" / str(number) / "job.json").read_text())
    spec, name = job["jobspec"], f58(number)
    system = spec["attributes"]["system"]
    cause = []
    children = []

    def end(why):
        cause.append(why)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)

    streams = []
    for stream in ("stdout", "stderr"):
        about = system.get("shell", {}).get("options", {}).get("output", {}).get(stream, {})
        target = pathlib.Path(about["path"].replace("{{id.dec}}", str(number)) if about else os.devnull)
        streams.append(target.open("wb"))
    total = tasks_of(spec, job["held"])
    status, note = 0, ""
    for rank in range(total):
        own = {"FLUX_JOB_ID": name, "FLUX_TASK_RANK": str(rank), "FLUX_JOB_SIZE": str(total)}
        own |= {"FLUX_URI": f"local://{path}", "FLUX_JOB_NNODES": str(len(job["held"]))}
        try:
            children.append(
                subprocess.Popen(
                    spec["tasks"][0]["command"],
                    env={"PATH": os.defpath, **system.get("environment", {}), **own},
                    cwd=system["cwd"] if os.path.isdir(system.get("cwd", "")) else "/tmp",  # as the real one
                    stdin=subprocess.DEVNULL,
                    stdout=streams[0],
                    stderr=streams[1],
                    start_new_session=True,
                )
            )
        except OSError as problem:
            status, note = 127 << 8, f"task {rank}: start failed: {problem}"
    deadline = time.monotonic() + system["duration"] if system.get("duration") else None
    kill_at = None
    while any(child.poll() is None for child in children):
        if not cause and (path / "jobs" / str(number) / "cancel").exists():
            end(CANCELED)
        if not cause and deadline and time.monotonic() > deadline:
            end(TIMEOUT)
        if cause and kill_at is None:
            kill_at = time.monotonic() + 5
        if kill_at and time.monotonic() > kill_at:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        time.sleep(0.01)
    for child in children:
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        status = max(status, code << 8)
    instance = Instance(path)
    job["state"], job["t_cleanup"], job["t_inactive"] = "INACTIVE", time.time(), time.time()
    job["waitstatus"] = {TIMEOUT: 142 << 8, CANCELED: 143 << 8}.get(cause[0], status) if cause else status
    job["result"] = cause[0] if cause else COMPLETED if status == 0 else FAILED
    if cause:
        job["exception"] = {TIMEOUT: ("timeout", "resource allocation expired"), CANCELED: ("cancel", "")}[cause[0]]
    elif note:
        job["exception"] = ("exec", note)
    instance.put(job)
    instance.advance()


def request_end(path, number):
    """A runner that is only being started would miss a signal."""
    (path / "jobs" / str(number) / "cancel").touch()
