"""Cgroups (v2) of local jobs: limits of memory and cpus, and a reliable kill.

Imports only the standard library: runners use it too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OWN = "agent"  # subgroup of the agent (systemd's DelegateSubgroup=), so that its unit may have others
WANTED = ("memory", "cpuset", "pids")
_GONE_WITHIN = 5.0  # seconds for killed processes to exit


@dataclass(frozen=True, slots=True)
class CgroupParent:
    """The cgroup in which jobs get their own, and its controllers; empty path: none."""

    path: str = ""
    controllers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"cgroup ({', '.join(self.controllers) or 'ends only'})" if self.path else "process group"


NOWHERE = CgroupParent()


def find_cgroup_parent(setting: str = "auto", proc: Path = Path("/proc/self")) -> CgroupParent:
    """Return where jobs can have cgroups. `setting`: a delegated directory, `auto`, or `off`.

    `auto` uses only the cgroup of a systemd unit with the agent in a subgroup: splitting the agent's own cgroup would
    prevent systemd from restarting it beside its jobs.
    """
    if setting == "off":
        return NOWHERE
    return _usable(Path(setting)) if setting != "auto" else _delegated(proc)


def _delegated(proc: Path) -> CgroupParent:
    try:
        mount = next(line.split()[1] for line in (proc / "mounts").read_text().splitlines() if " cgroup2 " in line)
        own = next(line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return NOWHERE
    here = Path(mount) / own.strip().lstrip("/")
    return _usable(here.parent) if here.name == OWN else NOWHERE


def _usable(path: Path) -> CgroupParent:
    """Enable the available controllers, then create and remove a test cgroup."""
    trial = path / f".try-{os.getpid()}"
    try:
        there = (path / "cgroup.controllers").read_text().split()
        for name in WANTED:
            if name in there:
                with contextlib.suppress(OSError):  # not all controllers are delegated
                    (path / "cgroup.subtree_control").write_text(f"+{name}")
        trial.mkdir()
    except OSError:
        return NOWHERE
    try:
        able = (trial / "cgroup.procs").exists() and os.access(trial / "cgroup.procs", os.W_OK)
        on = tuple(name for name in WANTED if (trial / f"{name}.{'cpus' if name == 'cpuset' else 'max'}").exists())
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()
    return CgroupParent(str(path), on) if able else NOWHERE


class JobCgroup:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def make(cls, path: Path, *, memory: int, cpus: Sequence[int]) -> JobCgroup | None:
        """Create the cgroup with its limits; None if that fails."""
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            return None
        made = cls(path)
        if memory:
            made._set("memory.max", str(memory))
            made._set("memory.swap.max", "0")
            made._set("memory.oom.group", "1")  # kill the whole job on OOM
        if cpus:
            made._set("cpuset.cpus", ",".join(map(str, cpus)))
        return made

    @property
    def holds_memory(self) -> bool:
        """Return True if the kernel enforces the memory limit."""
        return self._read("memory.max") not in ("", "max")

    def enter(self) -> None:
        """Move this process into the cgroup."""
        (self.path / "cgroup.procs").write_text("0")

    @property
    def ran_out_of_memory(self) -> bool:
        """Return True if the kernel killed a process of the job for lack of memory."""
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        return int(events.get("oom_kill", "0")) > 0 or int(events.get("oom_group_kill", "0")) > 0

    def end(self) -> bool:
        """Kill all processes; return True when none is left."""
        if not self._set("cgroup.kill", "1"):
            return False
        until = time.monotonic() + _GONE_WITHIN
        while self.populated:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)  # exiting takes a moment, and there is no notification
        return True

    @property
    def populated(self) -> bool:
        return "populated 1" in self._read("cgroup.events")

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text().strip()
        except OSError:
            return ""

    def _set(self, name: str, value: str) -> bool:
        try:
            (self.path / name).write_text(value)
        except OSError:
            return False
        return True
