"""Backups: a consistent copy of a database in one SQLite file, made while the server runs.

SQLite and PostgreSQL have the same tables, so both use this format, and a backup of one can be restored into the other.
The claim is not copied.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rainbow_sched.model.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound, RainbowError
from rainbow_sched.model.generation import HistoryMark
from rainbow_sched.store.schema import migrations

if TYPE_CHECKING:
    import psycopg

    from rainbow_sched.store.claim import Claim

PAGES_PER_STEP = 4096  # SQLite pages between two calls of `progress`
ROWS_PER_BATCH = 10_000  # of PostgreSQL; bounds the memory of a backup
NOT_COPIED = frozenset({"claims", "schema_versions"})
Progress = Callable[[str, float], None]  # name of the table or file, and the completed share from 0 to 1


def no_progress(what: str, share: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A summary of a backup file."""

    path: Path
    schema: int
    jobs: int
    last_event: int
    last_event_at: float | None
    bytes: int


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL; None for another database."""
    scheme, _, rest = url.partition("://")
    return Path(unquote(rest[1:])).absolute() if scheme == "sqlite" and rest.startswith("/") else None


def back_up(url: str, target: Path, progress: Progress = no_progress) -> Backup:
    """Copy the database at `url` to the new file `target`, which appears when it is complete.

    NotFound: there is no database or no folder. AlreadyExists: `target` exists.
    """
    if target.exists():
        raise AlreadyExists(f"{target} exists, and a backup overwrites nothing: name another file")
    if not target.parent.is_dir():
        raise NotFound(f"the folder {target.parent} for the backup does not exist: make it, or name another file")
    source = sqlite_path(url)
    with scratch_file(target) as scratch:
        if source is not None:
            copy_file(source, scratch, progress)
        else:
            _from_postgres(url, scratch, progress)
        found = inspect(scratch)
        put_in_place(scratch, target)
    return replace(found, path=target)


@contextlib.contextmanager
def scratch_file(target: Path) -> Iterator[Path]:
    """Create an incomplete file beside `target`, and delete what is left of it at the end."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Invalid(f"cannot write in {target.parent}: {error.strerror}") from None
    try:
        yield scratch
    finally:
        for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
            scratch.with_name(scratch.name + suffix).unlink(missing_ok=True)


def put_in_place(scratch: Path, target: Path) -> None:
    """Rename a complete file to its final name; force both to disk."""
    sync(scratch)
    os.rename(scratch, target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Force a file or a folder's entries to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def inspect(path: Path) -> Backup:
    """Verify a backup and return its summary. Corrupt: it is damaged; Invalid: it is not a backup of Rainbow."""
    with _opened(path) as connection:
        # `quick_check` of SQLite 3.40.0 to 3.41.0 reports intact tables without rowids as damaged.
        [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise Corrupt(f"{path} is damaged ({verdict}): use another backup")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"schema_versions", "counters", "jobs", "events"} <= tables:
            raise Invalid(f"{path} is not a backup of a Rainbow database")
        [(schema,)] = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchall()
        if schema > migrations()[-1].version:
            raise Conflict(
                f"{path} has schema {schema}, made by a newer Rainbow; this one knows schemas up to "
                f"{migrations()[-1].version}: use the newer version"
            )
        [(jobs,)] = connection.execute("SELECT count(*) FROM jobs").fetchall()
        event = connection.execute("SELECT value FROM counters WHERE name = 'event'").fetchone()
        [(at,)] = connection.execute("SELECT max(at) FROM (SELECT at FROM events ORDER BY seq DESC LIMIT 1)").fetchall()
    return Backup(
        path=path, schema=schema, jobs=jobs, last_event=event[0] if event else 0, last_event_at=at,
        bytes=path.stat().st_size,
    )  # fmt: skip


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection; translate driver errors."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    try:
        connection.execute("PRAGMA query_only = ON")
        yield connection
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise Corrupt(f"{path} is damaged or not a SQLite database ({error})") from None
        raise Invalid(f"cannot read {path}: {error}") from None
    finally:
        connection.close()


def last_mark(path: Path) -> HistoryMark | None:
    """Return the generation and newest event of a SQLite database; None if they cannot be read."""
    try:
        with _opened(path) as connection:
            row = connection.execute("SELECT number, id FROM generations ORDER BY number DESC LIMIT 1").fetchone()
            event = connection.execute("SELECT value FROM counters WHERE name = 'event'").fetchone()
    except RainbowError:  # the file is missing or damaged, or its schema has no generations
        return None
    return HistoryMark(row[0], row[1], event[0] if event else 0) if row else None


def copy_file(source: Path, target: Path, progress: Progress = no_progress) -> None:
    """Copy a consistent snapshot of a SQLite database with its write-ahead log; it may be written meanwhile."""

    def report(status: int, remaining: int, total: int) -> None:
        progress(source.name, 1 - remaining / total if total else 1.0)

    with _opened(source) as connection:
        connection.execute("BEGIN")  # one snapshot for all pages; otherwise each write would restart the copy
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            connection.backup(copy, pages=PAGES_PER_STEP, progress=report)
        finally:
            copy.close()


def tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of every copied table, referenced tables first."""
    names = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        if name not in NOT_COPIED and not name.startswith("sqlite_")
    ]
    refers = {
        name: {row[2] for row in connection.execute(f'PRAGMA foreign_key_list("{name}")')} - {name} for name in names
    }
    ordered: list[str] = []
    while len(ordered) < len(names):
        ordered += [name for name in names if name not in ordered and refers[name] <= set(ordered)]
    return {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for name in ordered}


# --- PostgreSQL ---


def _from_postgres(url: str, target: Path, progress: Progress) -> None:
    import psycopg

    from rainbow_sched.store import postgres
    from rainbow_sched.store.sqlite import make_sqlite

    try:
        with psycopg.connect(url, connect_timeout=postgres.CONNECT_SECONDS) as source:
            source.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            source.read_only = True
            _check_schema(source)
            make_sqlite(target)
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                _copy_rows(source, copy, progress)
            finally:
                copy.close()
    except psycopg.Error as error:
        raise postgres.DIALECT.translate(error) from None


def _check_schema(source: psycopg.Connection[tuple[object, ...]]) -> None:
    there = source.execute("SELECT to_regclass('schema_versions') IS NOT NULL").fetchone()
    if not there or not there[0]:
        raise NotFound("that PostgreSQL database has no tables of Rainbow")
    row = source.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchone()
    version, newest = row[0] if row else 0, migrations()[-1].version
    if version != newest:
        raise Conflict(
            f"that database has schema {version}, and this Rainbow has schema {newest}: make the backup with the "
            "version of Rainbow that serves the database"
        )


def _copy_rows(source: psycopg.Connection[tuple[object, ...]], copy: sqlite3.Connection, progress: Progress) -> None:
    from psycopg import sql

    copy.execute("PRAGMA synchronous = OFF")  # `put_in_place` forces the file to disk
    copy.execute("PRAGMA foreign_keys = OFF")
    copy.execute("BEGIN")
    columns_of = tables(copy)
    for done, (table, columns) in enumerate(columns_of.items()):
        progress(table, done / len(columns_of))
        copy.execute(f'DELETE FROM "{table}"')  # noqa: S608
        insert = f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})'  # noqa: S608
        with source.cursor(name="rainbow_backup") as cursor:
            cursor.itersize = ROWS_PER_BATCH
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table)))
            while rows := cursor.fetchmany(ROWS_PER_BATCH):
                copy.executemany(insert, rows)
    copy.execute("COMMIT")


def fill_postgres(url: str, copy: Path, claim: Claim, progress: Progress = no_progress) -> None:
    """Replace all rows of a PostgreSQL database by those of a SQLite file of the same schema, in one transaction.

    Replaced: another server has taken the claim on the database.
    """
    import psycopg
    from psycopg import sql

    from rainbow_sched.store import postgres

    try:
        with _opened(copy) as source, postgres.claimed_connection(url, claim) as target:
            columns_of = tables(source)
            everything = sql.SQL(", ").join(map(sql.Identifier, columns_of))
            target.execute(sql.SQL("TRUNCATE {}").format(everything))
            for done, (table, columns) in enumerate(columns_of.items()):
                progress(table, done / len(columns_of))
                _fill_table(target, source, table, columns)
    except psycopg.Error as error:
        raise postgres.DIALECT.translate(error) from None


def _fill_table(
    target: psycopg.Connection[tuple[object, ...]], source: sqlite3.Connection, table: str, columns: Sequence[str]
) -> None:
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    chosen = ", ".join(f'"{name}"' for name in columns)
    with target.cursor() as cursor, cursor.copy(into) as rows:
        for row in source.execute(f'SELECT {chosen} FROM "{table}"'):  # noqa: S608
            rows.write_row(row)
