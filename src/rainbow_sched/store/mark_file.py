"""The mark file in a server's data folder: the newest event that its database has stored.

It is written after each commit, before the response is sent. A database that ends before its mark has lost data: a
write-ahead log was deleted, or an older copy was restored.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.generation import MAX_MARK_CHARS, Generation, HistoryMark

log = logging.getLogger(__name__)
FILE_NAME = "database.mark"
_LINE_BYTES = MAX_MARK_CHARS + 8  # each mark overwrites the previous one in one write of this size


def read_mark(folder: Path) -> HistoryMark | None:
    """Return the mark of a data folder; None if it is missing or unreadable."""
    path = folder / FILE_NAME
    try:
        return HistoryMark.parse(path.read_text("ascii").strip())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, Invalid) as error:
        log.warning("cannot read %s (%s): loss of database content is not checked", path, error)
        return None


class MarkFile:
    """Writes the mark of a running server. `advance` is called by the thread that commits."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._file: int | None = None
        self._generation: tuple[int, str] | None = None
        self._failed = False

    def begin(self, generation: Generation, event: int) -> None:
        """Write the mark of a new generation and force it to disk."""
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
        """Write the newest stored event, and the number and id of the generation that began with it.

        Before `begin` it does nothing, because the generation is not known yet.
        """
        if self._file is None or self._generation is None:
            return
        self._generation = generation or self._generation
        line = f"{HistoryMark(*self._generation, event)}\n".encode("ascii")
        try:
            os.pwrite(self._file, line.rjust(_LINE_BYTES), 0)
        except OSError as error:  # the commit is valid; the older mark only detects less
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._failed:
            log.warning("cannot write %s (%s): loss of the database may go undetected", self._path, error.strerror)
        self._failed = True

    def sync(self) -> None:
        """Force the mark to disk."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Force the mark to disk and close the file."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            self._file = None
