"""The runner process of one local job; it outlives the agent. Forked by a small process, the starter.

DIR holds `launch.json` (the job) and `place.json` (its resources). The runner creates its start marker with a link,
which succeeds once, so a repeated submission runs once. It runs the tasks in their own process group, ends them at
the time limit or on SIGTERM, and writes the result to `exit`. It imports only the standard library, to start quickly
and independently of the job's environment.

Starting an interpreter takes twenty milliseconds, a fork one. So the agent starts one starter and sends it a tag per
line; it answers with the runner's process id. The starter exits with the agent; runners continue.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import rainbow_sched
from rainbow_sched.agent.backends.local.cgroups import JobCgroup

MARKER, EXIT, CANCEL = "started", "exit", "cancel"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_WATCHED = (signal.SIGCHLD, signal.SIGTERM)
CONTACT_CHECK_SECONDS = 20.0  # seconds between reads of the agent's last contact
MEMORY_CHECK_SECONDS = 0.5  # between two measurements of a job's memory
_STDERR_TAIL_BYTES = 4096
_NO_MEMORY_MESSAGES = (b"MemoryError", b"bad_alloc", b"annot allocate memory", b"ut of memory", b"OutOfMemoryError")
_SERVE = "from rainbow_sched.agent.backends.local.wrapper import serve; serve(sys.argv[2])"
_BEGIN = f"import sys; sys.path.append(sys.argv[1]); {_SERVE}"


def in_use(top: int) -> int:
    """Return the private bytes of all processes below `top`."""
    total, left = 0, _children(top)
    while left:
        pid = left.pop()
        left += _children(pid)
        try:
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        except OSError:
            continue  # already ended
        total += max(0, int(resident) - int(shared)) * resource.getpagesize()
    return total


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def reports_lack_of_memory(errors: Path) -> bool:
    """Return True if the end of stderr reports a failed allocation."""
    try:
        with errors.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _STDERR_TAIL_BYTES))
            reason = file.read(_STDERR_TAIL_BYTES)
    except OSError:
        return False
    return any(word in reason for word in _NO_MEMORY_MESSAGES)


def human(amount: int) -> str:
    return f"{amount / 2**20:.0f} MiB"


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return an id that changes at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot, which tells reused ids apart; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def write_whole(path: Path, value: object, *, safe: bool = True) -> None:
    """Write JSON so that the file is there whole, and safe on disk, or not at all.

    Not `safe`: it may be gone after a power cut, and is worthless then anyway.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    _write(beside, value, safe=safe)
    beside.replace(path)
    if safe:
        _sync_directory(path.parent)


def _write(path: Path, value: object, *, safe: bool) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file)
        file.flush()
        if safe:
            os.fdatasync(file.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def mark_started(directory: Path) -> bool:
    """Create the start marker on disk, so that a power failure cannot start the job again; False if it exists."""
    beside = directory / f".{MARKER}.{os.getpid()}"
    me = {"pid": os.getpid(), "start": start_time(os.getpid()), "boot": boot_id(), "at": time.time()}
    _write(beside, me, safe=True)
    try:
        os.link(beside, directory / MARKER)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    _sync_directory(directory)
    return True


class JobRun:
    def __init__(self, directory: Path, launch: dict[str, Any], place: dict[str, Any]) -> None:
        self.directory, self.launch, self.place = directory, launch, place
        self.group = 0  # process group of all tasks
        self.alive: set[int] = set()
        self.codes: list[int] = []
        self.cause = "exit"
        self.reason = ""
        self.contact = boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)  # the agent submitted just now
        self.kernel: JobCgroup | None = None  # None: no cgroup available
        if path := place["cgroup"]:
            self.kernel = JobCgroup.make(Path(path), memory=place["memory"], cpus=place["cpus"])
        self.counted = bool(place["memory"]) and not (self.kernel is not None and self.kernel.holds_memory)

    def start(self) -> None:
        """Start every task; the first creates the process group, the others join it."""
        prepare = _preparation(self.place, self.kernel, limited=self.counted)
        for rank, task in enumerate(self.launch["tasks"]):
            environment = {**self.launch["environment"], **self.place["environment"], "RAINBOW_TASK_RANK": str(rank)}
            with (self.directory / "stdout").open("ab") as out, (self.directory / "stderr").open("ab") as err:
                child = subprocess.Popen(
                    task,
                    cwd=self.launch["cwd"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    process_group=self.group,
                    preexec_fn=prepare,  # noqa: PLW1509 - single-threaded
                )
            child.returncode = 0  # reaped in `reap`
            self.group = self.group or child.pid
            self.alive.add(child.pid)

    def wait(self) -> None:
        """Wait until all tasks have ended: by themselves, at the time limit, or by SIGTERM and then SIGKILL."""
        limit = self.launch["limit"]
        deadline = None if limit is None else time.monotonic() + limit
        kill_at: float | None = None
        while self.alive:
            next_at = kill_at if kill_at is not None else deadline
            left = CONTACT_CHECK_SECONDS if next_at is None else max(0.0, next_at - time.monotonic())
            got = signal.sigtimedwait(
                _WATCHED, min(left, MEMORY_CHECK_SECONDS if self.counted else CONTACT_CHECK_SECONDS)
            )
            self.reap()
            now = time.monotonic()
            if kill_at is None:
                asked = got is not None and got.si_signo == signal.SIGTERM
                if self.alive and self.must_end(asked, deadline is not None and now >= deadline):
                    self.signal(signal.SIGTERM)
                    self.signal(signal.SIGCONT)  # for stopped processes
                    kill_at = now + (0.0 if self.cause == "memory" else self.launch["grace"])
            elif now >= kill_at:
                self.signal(signal.SIGKILL)
                kill_at = now + 1.0

    def must_end(self, asked: bool, late: bool) -> bool:
        """Return True and set the cause if the job must end now."""
        if asked:
            self.cause, self.reason = "cancelled", "cancelled"
        elif late:
            self.cause, self.reason = "time-limit", f"ran longer than its limit of {self.launch['limit']:g} s"
        elif self.counted and (used := in_use(os.getpid())) > self.place["memory"]:
            self.cause = "memory"
            self.reason = f"used {human(used)} of memory; it requested {human(self.place['memory'])}"
        elif self.out_of_contact():
            self.cause, self.reason = "out-of-touch", "the server could not be reached for too long"
        return self.cause != "exit"

    def out_of_contact(self) -> bool:
        """Return True if the server may have started the job elsewhere, by the agent's file of its last contact."""
        guard = self.launch["guard"]
        if guard is None:
            return False
        try:
            boot, at = json.loads((self.directory.parent.parent / "contact").read_text())
        except (OSError, ValueError):  # the agent's files are gone: no contact since
            boot, at = self.contact
        if boot == boot_id():
            self.contact = boot, at
        return bool(time.clock_gettime(time.CLOCK_BOOTTIME) - self.contact[1] > guard)

    def signal(self, number: int) -> None:
        if not self.group:
            return  # nothing has started, and group 0 would be our own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def reap(self) -> None:
        """Collect ended processes; orphans are reaped without effect on the result."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.alive.clear()
                return
            if pid == 0:
                return
            if pid in self.alive:
                self.alive.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                self.codes.append(128 - code if code < 0 else code)

    def kill_remaining(self) -> None:
        """Kill all remaining processes, also those that left the process group."""
        self.signal(signal.SIGKILL)
        if self.kernel is not None:
            self.kernel.end()
        while pids := _children(os.getpid()):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                os.wait()
            except ChildProcessError:
                break

    def check_memory(self) -> None:
        """Detect a failure for lack of memory, and remove the cgroup."""
        asked = human(self.place["memory"])
        if self.kernel is not None:
            if self.kernel.ran_out_of_memory and self.cause == "exit":
                self.cause, self.reason = "memory", f"used more than the requested {asked} of memory"
            self.kernel.remove()
        failed = any(self.codes) and self.cause == "exit"
        if failed and self.counted and reports_lack_of_memory(self.directory / "stderr"):
            self.cause = "memory"
            self.reason = (
                f"exit code {max(self.codes)}; stderr reports that the requested {asked} of memory are too few"
            )


def _preparation(place: dict[str, Any], group: JobCgroup | None, *, limited: bool) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)
    cpus, memory = place["cpus"], place["memory"] if limited else 0

    def prepare() -> None:
        if group is not None:
            group.enter()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if cpus:
            os.sched_setaffinity(0, cpus)
        if memory:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    return prepare


def not_started(launch: dict[str, Any], problem: Exception) -> str:
    """Return why the command could not start: the working directory is as likely as the command."""
    command, reason = launch["tasks"][0][0], str(problem)
    if isinstance(problem, OSError) and problem.filename in (command, launch["cwd"]):
        reason = problem.strerror or reason
        if problem.filename == launch["cwd"]:
            return f"cannot use the working directory {launch['cwd']!r}: {reason}"
    return f"cannot start {command!r}: {reason}"


def wrong_hosts(launch: dict[str, Any], place: dict[str, Any]) -> str:
    """Return why the job must not start on the hosts where it was placed; empty if it may."""
    got = place.get("hosts", [])
    for group, only in enumerate(launch.get("only", [])):  # launch files of older agents have no hosts
        hosts = got[group] if group < len(got) else ["an unknown host"]
        if only and not set(hosts) <= set(only):
            reason = f"it was placed on {', '.join(hosts)}, but may run on {', '.join(only)} only"
            return f"{reason[:500]}; it was not started"
    return ""


def main(directory: Path) -> int:
    """Run the job of `directory`; return 0, or 3 if another runner has started it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # before the marker: a cancel must not end the runner
    if not mark_started(directory):
        return 3
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    started = time.time()
    launch = json.loads((directory / "launch.json").read_text())
    run = JobRun(directory, launch, json.loads((directory / "place.json").read_text()))
    misplaced = wrong_hosts(launch, run.place)
    if (directory / CANCEL).exists():
        run.cause, run.reason = "cancelled", "cancelled before it started"
    elif run.out_of_contact():
        run.cause, run.reason = "out-of-touch", "the server could not be reached for too long; it was not started"
    elif misplaced:
        run.cause, run.reason = "wrong-nodes", misplaced
    else:
        try:
            run.start()
        except (OSError, subprocess.SubprocessError) as problem:
            run.cause, run.reason = "launch", not_started(launch, problem)
            run.codes.append(127 if isinstance(problem, FileNotFoundError) else 126)
            with (directory / "stderr").open("a") as err:
                err.write(f"rainbow: {run.reason}\n")
            run.signal(signal.SIGKILL)
        run.wait()
        run.kill_remaining()
        run.check_memory()
    code = max(run.codes) if run.codes else None
    write_whole(
        directory / EXIT,
        {"code": code, "cause": run.cause, "reason": run.reason, "started": started, "ended": time.time()},
    )
    return 0


def starter_command(root: str) -> list[str]:
    """Return the command of the starter of the jobs below `root`, independent of the environment."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(Path(rainbow_sched.__file__).parent.parent), root]


def serve(directory: str) -> None:
    """Fork a runner for each tag on stdin until it is closed."""
    root = Path(directory).resolve()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    with os.fdopen(os.dup(0), "rb") as asked:
        for line in asked:
            tag = line.decode().strip()
            try:
                pid = os.fork()
            except OSError:
                pid = -1  # no process available
            if pid == 0:
                _become_runner(root / tag)
            try:
                os.write(1, f"{tag} {pid}\n".encode())
            except BrokenPipeError:
                return


def _become_runner(directory: Path) -> None:
    """Become a runner; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 256)
        code = main(directory)
    except BaseException:  # last resort: leave the traceback for the agent
        (directory / "runner.log").write_text(traceback.format_exc())
    finally:
        os._exit(code)
