"""SQLite: one file, one server, every commit forced to disk."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import sqlite3
import time
from pathlib import Path

from rainbow_sched.model.errors import Conflict, Corrupt, Invalid, Unavailable
from rainbow_sched.store import claim as claims
from rainbow_sched.store.checkpoints import Checkpointer
from rainbow_sched.store.claim import Claimant, ClaimTaken
from rainbow_sched.store.claim_keeper import Claim, elapsed
from rainbow_sched.store.engine import SqlStore
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session, SqlDialect

log = logging.getLogger(__name__)
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


def open_sqlite(path: Path, claimant: Claimant | None = None) -> SqlStore:
    """The store in a file; it is made if it is not there. With a claimant: for the server of this file."""
    if sqlite3.sqlite_version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST[:2]))
        raise Unavailable(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {wanted} or newer is needed: "
            "use another build of Python, or PostgreSQL (--db postgresql://...)"
        )
    _check_place(path)
    lock = lock_file(path, claims.WAIT_SECONDS if claimant is not None else 0.0)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        writer = _connect(path, writing=True)
        try:
            claim = None if claimant is None else _claim(path, writer, claimant)
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

    def connect(writing: bool) -> Session:
        session = _connect(path, writing=writing)
        session.guard, session.on_event = writer.guard, writer.on_event
        return session

    return SqlStore(writer, connect, release, claim)


def make_sqlite(path: Path) -> None:
    """Bring an empty file to today's schema."""
    session = _connect(path, writing=True)
    try:
        migrate(session)
    finally:
        session.close()


def _claim(path: Path, writer: Session, claimant: Claimant) -> Claim:
    """Take the claim, and have every write of `writer` check it."""
    migrate(writer, upto=claims.FIRST_SCHEMA)
    taken_at = elapsed()
    term = claims.take_claim(writer, claimant, wait=claims.WAIT_SECONDS, locked=True)
    claim = Claim(claimant, term, lambda: _connect_for_claim(path), taken_at, name=str(path))
    writer.guard, writer.on_event = claim.check, claim.note_event
    return claim


def _connect_for_claim(path: Path) -> Session:
    """A session for renewals. They need not survive a crash, so no commit of them waits for the disk."""
    session = _connect(path, writing=True)
    session.run("PRAGMA synchronous = NORMAL")
    session.run(f"PRAGMA busy_timeout = {int(1000 * claims.RENEW_SECONDS)}")
    return session


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


def lock_file(path: Path, wait: float) -> int:
    """Hold the file for this process alone; the operating system lets go when the process ends, however it ends."""
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        _wait_for_lock(lock, path, wait)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()} on {socket.gethostname()} since {claims.utc(time.time())}".encode())
    except BaseException:
        os.close(lock)
        raise
    return lock


def _wait_for_lock(lock: int, path: Path, wait: float) -> None:
    until, told = time.monotonic() + wait, False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise Unavailable(
                f"{path} lies on a file system that has no locks ({error.strerror}): use a local disk, or PostgreSQL"
            ) from None
        holder = os.pread(lock, 400, 0).decode("utf-8", "replace").strip()
        if time.monotonic() >= until:
            raise ClaimTaken(
                f"another server (process {holder or 'unknown'}) has {path} open, and only one server may: stop that "
                "server first, or give this one a database of its own (--db)"
            )
        if not told:
            told = True
            log.warning("process %s has %s open; waiting up to %g s for it to stop", holder, path, wait)
        time.sleep(claims.POLL_SECONDS)  # another process holds the lock, and a wait for it could not be given up


def _connect(path: Path, *, writing: bool) -> Session:
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )
    except sqlite3.Error as error:
        raise _translate(error) from error
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        if writing:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise Unavailable(f"{path} lies where SQLite cannot keep its write-ahead log; use a local disk")
        else:
            connection.execute("PRAGMA query_only = ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise _translate(error) from error
        raise
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


DIALECT = SqlDialect(
    name="sqlite",
    placeholder="?",
    begin_write=(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}", "BEGIN IMMEDIATE"),
    begin_brief=("PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE"),
    begin_read=("BEGIN",),
    rows_at_once=True,  # between two steps the interpreter changes hands, which costs more than a row
    reconnects=False,
    translate=_translate,
)
