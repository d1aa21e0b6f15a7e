"""The time of the last contact with the server, in a file, so that a restart does not extend a lease."""

from __future__ import annotations

import json
from pathlib import Path

from rainbow_sched.agent.backends.local.wrapper import boot_id

EVERY = 5.0  # seconds; an older time only ends jobs earlier


class ContactFile:
    """A file with the boot clock at the sending of the last answered message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._boot = boot_id()
        self._last = float("-inf")

    def read(self) -> float | None:
        """Return the time; None if it is unknown or from before a reboot."""
        try:
            boot, at = json.loads(self._path.read_text())
        except (OSError, ValueError, TypeError):
            return None
        return float(at) if boot == self._boot else None

    def write(self, at: float) -> None:
        """Store the time, at most once per interval."""
        if at - self._last < EVERY:
            return
        self._last = at
        try:
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps([self._boot, at]))
            beside.replace(self._path)
        except OSError:
            return  # a full disk must not end the agent; an older time only ends jobs earlier
