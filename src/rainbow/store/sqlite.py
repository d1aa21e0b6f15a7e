"""SQLite: one file, one server, every commit forced to disk."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

from rainbow.model.errors import Conflict, Corrupt, Invalid, Unavailable
from rainbow.store.checkpoints import Checkpointer
from rainbow.store.engine import Engine
from rainbow.store.schema import migrate
from rainbow.store.session import Dialect, Session

BUSY_SECONDS = 10.0
OLDEST = (3, 35, 0)  # RETURNING, UPDATE FROM, and more than a thousand values in one statement
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 40000",  # pages, if `checkpoints.py` should not keep up; a log of about 160 MiB
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)
_FOR_NOW = tuple(f"SQLITE_{why}" for why in ("FULL", "IOERR", "BUSY", "CANTOPEN", "READONLY", "LOCKED", "PROTOCOL"))


def open_sqlite(path: Path) -> Engine:
    """The store in a file; it is made if it is not there."""
    if sqlite3.sqlite_version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST[:2]))
        raise Unavailable(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {wanted} or newer is needed: "
            "use another build of Python, or PostgreSQL (--db postgresql://...)"
        )
    _check_place(path)
    lock = _lock(path)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        writer = _connect(path, writing=True)
        try:
            migrate(writer)
        except BaseException as error:
            writer.close()
            raise _translate(error) if isinstance(error, sqlite3.Error) else error from None
    except BaseException:
        os.close(lock)
        raise
    checkpoints = Checkpointer(path)

    def release() -> None:
        checkpoints.close()
        os.close(lock)

    return Engine(writer, lambda writing: _connect(path, writing=writing), release)


def _check_place(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise Invalid(
            f"the folder {folder} for the database does not exist: make it, or name another file "
            "(an absolute path has four slashes: sqlite:////var/lib/rainbow/rainbow.db)"
        )
    if path.is_dir():
        raise Invalid(f"{path} is a folder; name a file in it")
    refused = not os.access(folder, os.W_OK | os.X_OK)
    if refused or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        raise Invalid(f"{folder if refused else path} cannot be written by this user: change its owner or mode")


def _lock(path: Path) -> int:
    """Hold the file for this process alone; the operating system lets go when the process ends, however it ends."""
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode("ascii", "replace").strip()
        os.close(lock)
        raise Unavailable(
            f"another server (process {holder or 'unknown'}) has {path} open: stop it, or use another --db; "
            "several servers on one database need PostgreSQL"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock


def _connect(path: Path, *, writing: bool) -> Session:
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        if writing:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise Unavailable(f"{path} lies where SQLite cannot keep its write-ahead log; use a local disk")
        else:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise _translate(error) from error
    return Session(connection.cursor(), DIALECT, writing=writing, close=connection.close, alone=writing)


def _translate(error: Exception) -> Exception:
    """A driver's error as one of ours, or as it is when it shows a mistake in the code."""
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a name or text holds half of a surrogate pair, which is no character")
    if isinstance(error, OverflowError):
        return Invalid("a number is too large to be stored")
    if isinstance(error, sqlite3.IntegrityError):
        return Conflict(f"the database refuses this: {error}")
    if isinstance(error, sqlite3.DatabaseError):
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return Corrupt(f"the database file is damaged ({error}): restore it from a backup")
        if name.startswith(_FOR_NOW):
            return Unavailable(f"the database cannot be used now: {error}")
    return error


DIALECT = Dialect(
    name="sqlite",
    placeholder="?",
    begin_write=(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}", "BEGIN IMMEDIATE"),
    begin_brief=("PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE"),
    begin_read=("BEGIN",),
    rows_at_once=True,  # between two steps the interpreter changes hands, which costs more than a row
    reconnects=False,
    translate=_translate,
)
