"""Identify this process, and check whether another process of this machine has ended."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, unique across machines and reboots. A field is empty if the system does not provide it."""

    host: str
    process: int
    boot: str  # boot id of the machine
    pid_space: str  # PID namespace: a container has its own process ids
    process_start: str  # start time, because process ids are reused

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
        """Return True if the process has certainly ended; False for a process of another boot or PID namespace."""
        known = self.boot and self.pid_space and self.process_start
        if not known or self.boot != _read("/proc/sys/kernel/random/boot_id") or self.pid_space != _pid_space():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:  # the process exists and belongs to another user
            pass
        state, start = _state_and_start(self.process)
        return state in ("Z", "X") or (start != "" and start != self.process_start)


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the state and the start time of a process from /proc; empty strings if they cannot be read."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # a program name may contain parentheses
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""
