"""Starts and ends the runners of local jobs, and keeps the record of how long jobs took."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from rainbow.agent import wrapper
from rainbow.agent.backends.local_bids import KEPT_HISTORY, Ran


def start_runner(directory: Path) -> subprocess.Popen[bytes]:
    """A process of its own session, with an empty environment, that runs the job of `directory` and outlives us."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", wrapper.__file__, str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )


def ask_to_end(pid: int) -> None:
    """Tell a runner to end its job. By a descriptor, so that a number that was given anew meets nobody else."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)


def read_history(path: Path) -> list[Ran]:
    """The durations of the past; a damaged line is skipped: they are advice only."""
    found: list[Ran] = []
    with contextlib.suppress(FileNotFoundError):
        lines = path.read_text().splitlines()
        if len(lines) > 4 * KEPT_HISTORY:
            path.write_text("\n".join(lines[-KEPT_HISTORY:]) + "\n")
        for text in lines[-KEPT_HISTORY:]:
            with contextlib.suppress(ValueError, TypeError):
                limit, took = json.loads(text)
                found.append(Ran(limit, took))
    return found


def add_to_history(path: Path, ran: Ran) -> None:
    """Keep one more duration, if there is room for it."""
    with contextlib.suppress(OSError), path.open("a") as file:
        file.write(json.dumps([ran.limit, ran.took]) + "\n")


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
