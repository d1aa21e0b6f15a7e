"""The mark in a server's data folder: the newest event that its database is known to have stored.

It is written after each commit and before the answer goes out. A database that ends before its mark has lost
something: a write-ahead log was deleted, or an older copy was put back.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.generation import MAX_MARK, Generation, HistoryMark

log = logging.getLogger(__name__)
NAME = "database.mark"
_WIDTH = MAX_MARK + 8  # each mark replaces the one before in one write of this size


def read_mark(folder: Path) -> HistoryMark | None:
    """Return the mark of a data folder; None if there is none that can be read."""
    path = folder / NAME
    try:
        return HistoryMark.parse(path.read_text("ascii").strip())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, Invalid) as error:
        log.warning("cannot read %s (%s): whether the database has lost something is not checked", path, error)
        return None


class MarkFile:
    """Keeps the mark of a running server. `advance` is called by the thread that commits."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._file: int | None = None
        self._generation: tuple[int, str] | None = None
        self._failed = False

    def begin(self, generation: Generation, event: int) -> None:
        """Write the mark of a generation that has begun; it survives a power cut."""
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._warn(error)
                return
        self._generation = (generation.number, generation.id)
        self.advance(event)
        self.sync()

    def advance(self, event: int, generation: tuple[int, str] | None = None) -> None:
        """Note the newest stored event, and the number and id of the generation that began with it.

        Before `begin` it does nothing: the generation is not known yet.
        """
        if self._file is None or self._generation is None:
            return
        self._generation = generation or self._generation
        line = f"{HistoryMark(*self._generation, event)}\n".encode("ascii")
        try:
            os.pwrite(self._file, line.rjust(_WIDTH), 0)
        except OSError as error:  # the commit stands; the older mark only notices less
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._failed:
            log.warning("cannot write %s (%s): a lost database may be noticed too late", self._path, error.strerror)
        self._failed = True

    def sync(self) -> None:
        """Force the mark to disk."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Force it to disk and let go of the file."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            self._file = None
