"""Backups: a consistent copy of a database in one SQLite file, made while the server runs.

SQLite and PostgreSQL have the same tables, so one format serves both, and a backup of one can be restored into the
other. The claim is not copied between them: who serves a database is not part of its history.
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

    from rainbow_sched.store.claim_keeper import Claim

PAGES_AT_ONCE = 4096  # of SQLite, between two calls of `progress`
ROWS_AT_ONCE = 10_000  # of PostgreSQL
NOT_COPIED = frozenset({"claims", "schema_versions"})
Progress = Callable[[str, float], None]  # what is copied, and how much of it is done, from 0 to 1


def no_progress(what: str, share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds."""

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
    """Copy the database at `url` to the new file `target`, which appears when it is whole.

    NotFound: there is no database or no folder. AlreadyExists: nothing is overwritten.
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
    """A name beside `target` for a file that is not whole yet; what is left there at the end is removed."""
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
    """Give a whole file its name; both survive a power cut."""
    sync(scratch)
    os.rename(scratch, target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def inspect(path: Path) -> Backup:
    """Read a backup from end to end. Corrupt: it is damaged; Invalid: it is no backup of Rainbow."""
    with _opened(path) as connection:
        # `quick_check` of SQLite 3.40.0 to 3.41.0 takes whole tables without rowids for damaged ones.
        [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise Corrupt(f"{path} is damaged ({verdict}): use another backup")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"schema_versions", "counters", "jobs", "events"} <= tables:
            raise Invalid(f"{path} is no backup of Rainbow's database")
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
    """A connection that changes nothing, with the driver's errors as ours."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    try:
        connection.execute("PRAGMA query_only = ON")
        yield connection
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise Corrupt(f"{path} is damaged or no SQLite database ({error})") from None
        raise Invalid(f"cannot read {path}: {error}") from None
    finally:
        connection.close()


def last_mark(path: Path) -> HistoryMark | None:
    """Return how far a SQLite database has come; None if that cannot be read."""
    try:
        with _opened(path) as connection:
            row = connection.execute("SELECT number, id FROM generations ORDER BY number DESC LIMIT 1").fetchone()
            event = connection.execute("SELECT value FROM counters WHERE name = 'event'").fetchone()
    except RainbowError:  # it is missing, damaged or older than this table
        return None
    return HistoryMark(row[0], row[1], event[0] if event else 0) if row else None


def copy_file(source: Path, target: Path, progress: Progress = no_progress) -> None:
    """Copy a SQLite database as it is at one moment, with what its write-ahead log holds; others may write it."""

    def report(status: int, remaining: int, total: int) -> None:
        progress(source.name, 1 - remaining / total if total else 1.0)

    with _opened(source) as connection:
        connection.execute("BEGIN")  # one moment for all pages: without it each write would begin the copy anew
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            connection.backup(copy, pages=PAGES_AT_ONCE, progress=report)
        finally:
            copy.close()


def tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of every table that is copied; those that others refer to come first."""
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
        raise NotFound("that PostgreSQL database is not Rainbow's: it has no tables of it")
    row = source.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchone()
    version, newest = row[0] if row else 0, migrations()[-1].version
    if version != newest:
        raise Conflict(
            f"that database has schema {version}, and this Rainbow {newest}: make the backup with the Rainbow "
            "that serves the database"
        )


def _copy_rows(source: psycopg.Connection[tuple[object, ...]], copy: sqlite3.Connection, progress: Progress) -> None:
    from psycopg import sql

    copy.execute("PRAGMA synchronous = OFF")  # the whole file is forced to disk at the end
    copy.execute("PRAGMA foreign_keys = OFF")
    copy.execute("BEGIN")
    columns_of = tables(copy)
    for done, (table, columns) in enumerate(columns_of.items()):
        progress(table, done / len(columns_of))
        copy.execute(f'DELETE FROM "{table}"')  # noqa: S608
        insert = f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})'  # noqa: S608
        with source.cursor(name="rainbow_backup") as cursor:
            cursor.itersize = ROWS_AT_ONCE
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table)))
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                copy.executemany(insert, rows)
    copy.execute("COMMIT")


def fill_postgres(url: str, copy: Path, claim: Claim, progress: Progress = no_progress) -> None:
    """Replace the rows of a PostgreSQL database by those of a SQLite file with the same schema: all of them, or none.

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
