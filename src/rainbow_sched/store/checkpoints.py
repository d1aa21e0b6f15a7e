"""Move what SQLite's write-ahead log has gathered into the database, beside the writer instead of in its way.

A checkpoint inside a commit makes that one commit tens of milliseconds slower; one that runs
in a thread of its own holds nobody up. It changes nothing about what is durable when.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

EVERY = 1.0  # seconds


class Checkpointer:
    """A thread with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0.1, isolation_level=None, check_same_thread=False)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rainbow-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Blocks."""
        self._over.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            with suppress(sqlite3.Error):  # a full or failing disk is the writer's to report; here it is tried again
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
