"""The SQLite store: one file, one server, every commit forced to disk."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import sqlite3
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from rainbow_sched.model.errors import Conflict, Corrupt, Invalid, Unavailable
from rainbow_sched.store import claim as claims
from rainbow_sched.store.claim import Claim, Claimant, ClaimTaken
from rainbow_sched.store.engine import SqlStore
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session, SqlDialect

log = logging.getLogger(__name__)
BUSY_SECONDS = 10.0  # that a statement waits for a lock of another process
CHECKPOINT_SECONDS = 1.0  # between two checkpoints, which keep the write-ahead log short
MIN_VERSION = (3, 35, 0)  # for RETURNING, UPDATE FROM and more than 1000 values in a statement
_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 40000",  # pages (160 MiB), in case the Checkpointer does not keep up
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)
_TRANSIENT = tuple(f"SQLITE_{why}" for why in ("FULL", "IOERR", "BUSY", "CANTOPEN", "READONLY", "LOCKED", "PROTOCOL"))


class Checkpointer:
    """A thread that moves the write-ahead log into the database.

    A checkpoint inside a commit makes that commit tens of milliseconds slower. Durability does not depend on it.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0.1, isolation_level=None, check_same_thread=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rainbow-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Blocks."""
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._stop.wait(CHECKPOINT_SECONDS):
            with suppress(sqlite3.Error):  # the writer reports a full or failing disk
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def open_sqlite(path: Path, claimant: Claimant | None = None) -> SqlStore:
    """Open or create the store in a file. With a claimant: take the claim for a server."""
    if sqlite3.sqlite_version_info < MIN_VERSION:
        wanted = ".".join(map(str, MIN_VERSION[:2]))
        raise Unavailable(
            f"this Python has SQLite {sqlite3.sqlite_version}, and {wanted} or newer is needed: "
            "use another build of Python, or PostgreSQL (--db postgresql://...)"
        )
    _check_path(path)
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

    return SqlStore(writer, lambda writing: _connect(path, writing=writing), release, claim)


def make_sqlite(path: Path) -> None:
    """Create the current schema in an empty file."""
    session = _connect(path, writing=True)
    try:
        migrate(session)
    finally:
        session.close()


def _claim(path: Path, writer: Session, claimant: Claimant) -> Claim:
    """Take the claim and make every write transaction of `writer` check it."""
    migrate(writer, upto=claims.FIRST_CLAIM_SCHEMA)
    return Claim.take(writer, claimant, lambda: _connect_for_claim(path), name=str(path), locked=True)


def _connect_for_claim(path: Path) -> Session:
    """Open a session for renewals. They need not survive a crash, so their commits do not wait for the disk."""
    session = _connect(path, writing=True)
    session.run("PRAGMA synchronous = NORMAL")
    session.run(f"PRAGMA busy_timeout = {int(1000 * claims.RENEW_SECONDS)}")
    return session


def _check_path(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise Invalid(
            f"the folder {folder} for the database does not exist: create it, or give another file "
            "(an absolute path has four slashes: sqlite:////var/lib/rainbow/rainbow.db)"
        )
    if path.is_dir():
        raise Invalid(f"{path} is a folder; give a file in it")
    closed = not os.access(folder, os.W_OK | os.X_OK)
    if closed or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        raise Invalid(f"{folder if closed else path} is not writable by this user: change its owner or mode")


def lock_file(path: Path, wait: float) -> int:
    """Lock the database for this process; the operating system releases the lock when the process ends."""
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
    until, warned = time.monotonic() + wait, False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise Unavailable(
                f"{path} is on a file system without locks ({error.strerror}): use a local disk, or PostgreSQL"
            ) from None
        holder = os.pread(lock, 400, 0).decode("utf-8", "replace").strip()
        if time.monotonic() >= until:
            raise ClaimTaken(
                f"another server (process {holder or 'unknown'}) has {path} open, and only one server may: stop that "
                "server first, or give this one a database of its own (--db)"
            )
        if not warned:
            warned = True
            log.warning("process %s has %s open; waiting up to %g s for it to stop", holder, path, wait)
        time.sleep(claims.POLL_SECONDS)  # a blocking flock could not time out


def _connect(path: Path, *, writing: bool) -> Session:
    with ExitStack() as opened:
        try:
            connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
            )
            opened.callback(connection.close)
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            if writing:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    raise Unavailable(f"SQLite cannot keep a write-ahead log for {path} there; use a local disk")
            else:
                connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise _translate(error) from error
        opened.pop_all()
    return Session(connection.cursor(), DIALECT, writing=writing, close=connection.close, exclusive=writing)


def _translate(error: Exception) -> Exception:
    """Translate a driver error into a RainbowError; return it unchanged if it indicates a bug."""
    if isinstance(error, UnicodeEncodeError):
        return Invalid("a name or text contains an unpaired surrogate, which is not a character")
    if isinstance(error, OverflowError):
        return Invalid("a number is too large to be stored")
    if isinstance(error, sqlite3.IntegrityError):
        return Conflict(f"the database rejects this: {error}")
    if isinstance(error, sqlite3.DatabaseError):
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return Corrupt(f"the database file is damaged ({error}): restore it from a backup")
        if name.startswith(_TRANSIENT):
            return Unavailable(f"the database cannot be used now: {error}")
    return error


DIALECT = SqlDialect(
    name="sqlite",
    placeholder="?",
    begin_write=(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}", "BEGIN IMMEDIATE"),
    begin_brief=("PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE"),
    begin_read=("BEGIN",),
    multi_row=True,  # a thread switch between two statements costs more than a row
    reconnects=False,
    translate=_translate,
)
