"""A control group (cgroup v2) for each local job, where this machine lets us: its memory and cpus, and a sure end.

Nothing but the standard library is imported here: the runner of a job uses it, too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OWN = "agent"  # the subgroup that systemd puts the agent into (DelegateSubgroup=), so that its unit may have others
WANTED = ("memory", "cpuset", "pids")
_GONE_WITHIN = 5.0  # seconds in which what was killed must have left


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where groups for jobs may be made, and what they can limit; an empty path: nowhere."""

    path: str = ""
    controllers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"cgroup ({', '.join(self.controllers) or 'ends only'})" if self.path else "process group"


NOWHERE = Grounds()


def find_grounds(wish: str = "auto", proc: Path = Path("/proc/self")) -> Grounds:
    """Where jobs may have groups of their own. `wish`: a directory that was delegated to us, `auto`, or `off`.

    By itself only a unit's group is used, with the agent in a subgroup of it. To split the group that the agent itself
    is in would keep systemd from ever starting it again beside its jobs.
    """
    if wish == "off":
        return NOWHERE
    return _usable(Path(wish)) if wish != "auto" else _delegated(proc)


def _delegated(proc: Path) -> Grounds:
    try:
        mount = next(line.split()[1] for line in (proc / "mounts").read_text().splitlines() if " cgroup2 " in line)
        own = next(line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return NOWHERE
    here = Path(mount) / own.strip().lstrip("/")
    return _usable(here.parent) if here.name == OWN else NOWHERE


def _usable(path: Path) -> Grounds:
    """Try it: switch the controllers on that there are, make a group and remove it."""
    trial = path / f".try-{os.getpid()}"
    try:
        there = (path / "cgroup.controllers").read_text().split()
        for name in WANTED:
            if name in there:
                with contextlib.suppress(OSError):  # some are not ours to switch on
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
    return Grounds(str(path), on) if able else NOWHERE


class JobGroup:
    """The group of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def make(cls, path: Path, *, memory: int, cpus: Sequence[int]) -> JobGroup | None:
        """Make it with its limits; None if that cannot be."""
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            return None
        made = cls(path)
        if memory:
            made._set("memory.max", str(memory))
            made._set("memory.swap.max", "0")
            made._set("memory.oom.group", "1")  # a job that lost one process to it is broken: all of it ends
        if cpus:
            made._set("cpuset.cpus", ",".join(map(str, cpus)))
        return made

    @property
    def holds_memory(self) -> bool:
        """True if the kernel keeps the job within its memory."""
        return self._read("memory.max") not in ("", "max")

    def enter(self) -> None:
        """Put this process, and what it starts, into the group."""
        (self.path / "cgroup.procs").write_text("0")

    @property
    def ran_out_of_memory(self) -> bool:
        """True if the kernel ended a process of the job because of its memory limit."""
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        return int(events.get("oom_kill", "0")) > 0 or int(events.get("oom_group_kill", "0")) > 0

    def end(self) -> bool:
        """Kill all that is in it; True when nothing is left."""
        if not self._set("cgroup.kill", "1"):
            return False
        until = time.monotonic() + _GONE_WITHIN
        while self.populated:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)  # what was killed takes a moment to leave, and the group has no bell
        return True

    @property
    def populated(self) -> bool:
        """True while a process is in it."""
        return "populated 1" in self._read("cgroup.events")

    def remove(self) -> None:
        """Leave no trace."""
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
