"""Identify this process, and tell whether another process of this machine has ended."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process among all processes of all machines. A text is empty where the system does not tell."""

    host: str
    process: int
    boot: str  # changes when the machine starts anew
    pid_space: str  # a container has process ids of its own
    process_start: str  # a process id is given again after its process has ended

    @classmethod
    def here(cls) -> ProcessIdentity:
        """Return the identity of this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(),
            process=pid,
            boot=_read("/proc/sys/kernel/random/boot_id"),
            pid_space=_pid_space(),
            process_start=_state_and_start(pid)[1],
        )

    def has_ended(self) -> bool:
        """Return True if it is certain that the process has ended: only for a process whose id means the same here."""
        known = self.boot and self.pid_space and self.process_start
        if not known or self.boot != _read("/proc/sys/kernel/random/boot_id") or self.pid_space != _pid_space():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it exists and belongs to another user
            pass
        state, start = _state_and_start(self.process)
        return state in ("Z", "X") or (start != "" and start != self.process_start)


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the state and the start time of a process as Linux writes them; empty texts if they cannot be read."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # a program's name may hold anything but ends so
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
