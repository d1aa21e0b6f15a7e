"""Start and stop runners of local jobs, and kill processes that a killed runner left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from rainbow_sched.agent.backends.local.cgroups import CgroupParent, find_cgroup_parent
from rainbow_sched.agent.backends.local.wrapper import starter_command
from rainbow_sched.model.errors import Invalid

log = logging.getLogger("rainbow.agent")
STOP_SECONDS = 2.0  # seconds for the starter to exit


class Runners:
    """Start runners through the starter process (`wrapper.py`), which is restarted when it ends."""

    def __init__(self, root: Path, started: Callable[[str, int], None], failed: Callable[[str], None]) -> None:
        """Call `started` with each runner's process id, `failed` for each runner that may not have started."""
        self._root, self._started, self._failed = root, started, failed
        self._starter: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.asked: set[str] = set()  # tags of runners being started

    def start(self, tag: str) -> None:
        """Start the runner of `tag` in its own session; raise OSError if that fails."""
        starter = self._starter or self._begin()
        assert starter.stdin is not None
        starter.stdin.write(f"{tag}\n".encode())
        self.asked.add(tag)

    def _begin(self) -> subprocess.Popen[bytes]:
        starter = self._starter = subprocess.Popen(
            starter_command(str(self._root)),
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
            log.warning("the starter process ended; starting another")
            self.close()
            lost, self.asked = self.asked, set()
            for tag in lost:
                self._failed(tag)

    def close(self) -> None:
        """Stop the starter; runners continue."""
        starter, self._starter, self._rest = self._starter, None, b""
        if starter is not None and starter.stdin is not None and starter.stdout is not None:
            asyncio.get_running_loop().remove_reader(starter.stdout.fileno())
            with contextlib.suppress(OSError):
                starter.stdin.close()
            starter.stdout.close()
            try:
                starter.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                starter.kill()
                starter.wait()


def cgroup_parent_for(setting: str) -> CgroupParent:
    """Return where runners create cgroups; raise Invalid if a given directory is not usable."""
    found = find_cgroup_parent(setting)
    if setting not in ("auto", "off") and not found.path:
        raise Invalid(
            f"-O cgroup={setting}: cannot create cgroups there; give a cgroup v2 directory that is delegated to this "
            "user, or auto or off"
        )
    return found


def request_end(pid: int) -> None:
    """Send SIGTERM to a runner, by pidfd so that a reused process id is not hit."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)


def end_strays(directory: Path) -> int:
    """Kill processes that write to the output of a job, after its runner was killed."""
    ended = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and any(_inside(process / link, directory) for link in ("fd/1", "fd/2")):
            with contextlib.suppress(OSError):  # already gone
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended


def _inside(link: Path, directory: Path) -> bool:
    try:
        return link.readlink().is_relative_to(directory)
    except OSError:  # another user's process, or gone
        return False
