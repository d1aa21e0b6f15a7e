"""Memory use of a job by process, where no cgroup limits it.

Imports only the standard library: runners use it.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

EVERY = 0.5  # seconds between measurements
_TAIL = 4096
_WORDS = (b"MemoryError", b"bad_alloc", b"annot allocate memory", b"ut of memory", b"OutOfMemoryError")


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


def speaks_of_memory(errors: Path) -> bool:
    """Return True if the end of stderr reports a failed allocation."""
    try:
        with errors.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            said = file.read(_TAIL)
    except OSError:
        return False
    return any(word in said for word in _WORDS)


def human(amount: int) -> str:
    return f"{amount / 2**20:.0f} MiB"
