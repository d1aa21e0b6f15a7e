"""Starts the runners of local jobs, asks them to end, and ends what a killed one left behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from rainbow_sched.agent.backends.local.cgroups import Grounds, find_grounds
from rainbow_sched.agent.backends.local.starter import words
from rainbow_sched.model.errors import Invalid

log = logging.getLogger("rainbow.agent")
LAST_WORD = 2.0  # seconds in which the starter must have gone


class Runners:
    """Ask the starter (`starter.py`) for runners; start it when it is needed, and again when it has ended."""

    def __init__(self, root: Path, started: Callable[[str, int], None], failed: Callable[[str], None]) -> None:
        """`started` is told each runner's process id; `failed`, of whom nothing is known: the starter died."""
        self._root, self._started, self._failed = root, started, failed
        self._starter: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.asked: set[str] = set()  # tags whose runner is being started

    def start(self, tag: str) -> None:
        """Have the job of `tag` run by a process of its own session that outlives us; raise OSError if that fails."""
        starter = self._starter or self._begin()
        assert starter.stdin is not None
        starter.stdin.write(f"{tag}\n".encode())
        self.asked.add(tag)

    def _begin(self) -> subprocess.Popen[bytes]:
        starter = self._starter = subprocess.Popen(
            words(str(self._root)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={},
            start_new_session=True,
        )
        assert starter.stdout is not None
        asyncio.get_running_loop().add_reader(starter.stdout.fileno(), self._read)
        return starter

    def _read(self) -> None:
        assert self._starter is not None
        assert self._starter.stdout is not None
        data = os.read(self._starter.stdout.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            tag, _, pid = line.decode().partition(" ")
            self.asked.discard(tag)
            if int(pid) > 0:
                self._started(tag, int(pid))
            else:
                self._failed(tag)
        if not data:
            log.warning("the process that starts jobs ended; another takes its place")
            self.close()
            lost, self.asked = self.asked, set()
            for tag in lost:
                self._failed(tag)

    def close(self) -> None:
        """Let the starter go; runners stay."""
        starter, self._starter, self._rest = self._starter, None, b""
        if starter is not None and starter.stdin is not None and starter.stdout is not None:
            asyncio.get_running_loop().remove_reader(starter.stdout.fileno())
            with contextlib.suppress(OSError):
                starter.stdin.close()
            starter.stdout.close()
            try:
                starter.wait(LAST_WORD)
            except subprocess.TimeoutExpired:
                starter.kill()
                starter.wait()


def grounds_for(wish: str) -> Grounds:
    """Where runners give their jobs control groups; a place that was named must be one."""
    found = find_grounds(wish)
    if wish not in ("auto", "off") and not found.path:
        raise Invalid(
            f"-O cgroup={wish}: no groups for jobs can be made there; name a directory of cgroup v2 that was delegated "
            "to this user, or say auto or off"
        )
    return found


def ask_to_end(pid: int) -> None:
    """Tell a runner to end its job. By a descriptor, so that a number that was given anew meets nobody else."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)


def end_strays(directory: Path) -> int:
    """End what a job left running whose runner was killed: the processes that write to its output."""
    ended = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and any(_inside(process / link, directory) for link in ("fd/1", "fd/2")):
            with contextlib.suppress(OSError):  # it went by itself
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended


def _inside(link: Path, directory: Path) -> bool:
    try:
        return link.readlink().is_relative_to(directory)
    except OSError:  # somebody else's, or gone
        return False
