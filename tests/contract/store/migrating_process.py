"""A process that dies before the Nth statement of a migration: python -m ... URL N."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from rainbow_sched.store import postgres, schema, sqlite
from rainbow_sched.store.session import Session


class Dying:
    """A session that kills its process when enough statements have run."""

    def __init__(self, session: Session, left: int) -> None:
        self._session = session
        self._left = left

    def __getattr__(self, name: str) -> object:
        if name in ("run", "change", "commit"):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self._session, name)


url, left = sys.argv[1], int(sys.argv[2])
opened = (
    sqlite._connect(Path(url.removeprefix("sqlite:///")), writing=True)
    if url.startswith("sqlite")
    else postgres._connect(url, writing=True)
)
schema.migrate(Dying(opened, left))  # type: ignore[arg-type]
print("done")
