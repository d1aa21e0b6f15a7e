"""The hosts of a simulated cluster: one with cores, and several with a disk, some of which are fast."""

from __future__ import annotations

import json

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.request import Equals, Group, Level, Request, Requirement, Task

CORE_HOST = "n0"
DISK_HOSTS = ("d0", "d1", "d2")
SUBSYSTEM = "io"
_FAST = Requirement(SUBSYSTEM, (Equals("kind", "fast"),))
_DISK = Level(type="node", requires=(_FAST,), inside=(Level(type="disk"),))
DISK_REQUEST = prepare(Request(groups=(Group(levels=(_DISK,)),), tasks=(Task(command=("true",)),)))


def graph(cores: int) -> bytes:
    """Return the graph of a cluster in the compact format."""
    nodes = [
        {"type": "node", "name": CORE_HOST, "with": [{"type": "core", "count": cores}]},
        {"type": "node", "count": len(DISK_HOSTS), "name": list(DISK_HOSTS), "with": [{"type": "disk"}]},
    ]
    return json.dumps({"rainbow": "graph/1", "cluster": "c", "with": nodes}).encode()


def subsystem(fast: tuple[str, ...]) -> bytes:
    """Return the subsystem that marks the hosts with fast disks."""
    vertex = {"type": "storage", "name": "fast", "on": list(fast), "metadata": {"kind": "fast"}}
    return json.dumps({"rainbow": "subsystem/1", "name": SUBSYSTEM, "with": [vertex]}).encode()
