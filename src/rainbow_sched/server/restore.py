"""Restore a database from a backup, continue with one that has lost data, and refuse to start on such a one.

A restore begins a new generation before the database can be served again, so that no job runs twice (R14 in
docs/protocol.md). The existing database is renamed, not deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from rainbow_sched.model.credential import CredentialKind
from rainbow_sched.model.errors import Conflict
from rainbow_sched.model.generation import Generation, HistoryMark
from rainbow_sched.server.options import ServerOptions, write_secret
from rainbow_sched.service.access.accounts import first_administrator
from rainbow_sched.service.maintenance.generations import newest_mark
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.store.backup import (
    Backup,
    Progress,
    back_up,
    copy_file,
    fill_postgres,
    inspect,
    last_mark,
    no_progress,
    put_in_place,
    scratch_file,
    sqlite_path,
    sync,
)
from rainbow_sched.store.base import Store, Tx
from rainbow_sched.store.factory import open_claimed, open_store
from rainbow_sched.store.mark_file import MarkFile, read_mark
from rainbow_sched.store.sqlite import lock_file

ADMIN_FILE = "admin.token"
NOT_STARTED = "The server did not start"
_REMEDY = (
    "put back what is missing; or restore a backup (rainbow server restore FILE); or continue with what is there "
    "(rainbow server restore --accept-loss): no job runs twice then, and old jobs wait until the clusters have "
    "reported. A new server needs its own data folder: --data-dir"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore."""

    generation: Generation
    backup: Backup | None  # None: it continued with the existing database
    set_aside: Path | None = None  # the previous database
    clusters: int = 0  # number of awaited reports
    admin_token: Path | None = None  # file of a new token, if the database had no administrator


# --- refusing to start ---


def check_file(options: ServerOptions, outcome: str = NOT_STARTED) -> None:
    """Raise Conflict if the SQLite file is missing in a data folder that was used before. Call it before opening."""
    path = sqlite_path(options.database())
    if path is None or (path.exists() and path.stat().st_size > 0):
        return
    for name in _traces(options.data_dir, path):
        raise Conflict(
            f"{path} is missing or empty, and {name} is there from an earlier start: a server would start empty, "
            f"and jobs that were acknowledged would be lost. {outcome}: {_REMEDY}"
        )


def _traces(folder: Path, path: Path) -> list[Path]:
    """Return the files of an earlier server."""
    wal = path.with_name(f"{path.name}-wal")
    found = [wal] if wal.exists() and wal.stat().st_size > 0 else []
    if read_mark(folder) is not None or (folder / ADMIN_FILE).exists():
        found += [folder / ADMIN_FILE] if (folder / ADMIN_FILE).exists() else [folder]
    return found


async def check_database(store: Store, options: ServerOptions, outcome: str = NOT_STARTED) -> None:
    """Raise Conflict if the database lacks an event that this server's data folder has recorded."""
    mark = read_mark(options.data_dir)

    def work(tx: Tx) -> tuple[bool, int, bool]:
        return mark is not None and tx.has_lost(mark), tx.last_seq(), not tx.credentials(kind=CredentialKind.ADMIN)

    lost, last_event, empty = await store.read(work)
    if mark is not None and lost:
        found = "is empty" if empty else f"ends at event {last_event}"
        raise Conflict(
            f"the database has lost data, or it is another one: it {found}, and {options.data_dir} has recorded "
            f"event {mark.event} of its generation {mark.generation}. Was a file deleted (of SQLite: rainbow.db-wal), "
            f"or an older copy restored? {outcome}: {_REMEDY}"
        )
    if empty and (options.data_dir / ADMIN_FILE).exists():
        raise Conflict(
            f"the database is empty, and {options.data_dir / ADMIN_FILE} is there from an earlier start: its "
            f"administrator and its jobs are gone, or this is another database. {outcome}: {_REMEDY}"
        )


# --- restoring ---


async def restore(options: ServerOptions, file: Path, progress: Progress = no_progress) -> Restored:
    """Replace the database by a backup. ClaimTaken: a server is running."""
    found = await asyncio.to_thread(inspect, file)
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = sqlite_path(options.database())
    if path is None:
        return await _restore_postgres(options, found, progress)
    lock = lock_file(path, 0.0)
    try:
        seen = _marks(options, last_mark(path))
        with scratch_file(path) as scratch:
            await asyncio.to_thread(copy_file, file, scratch, progress)
            begun = await _begin(scratch, seen)
            aside = _set_aside(path)
            put_in_place(scratch, path)
        _keep_mark(options, begun)
    finally:
        os.close(lock)
    return Restored(generation=begun.generation, backup=found, set_aside=aside, clusters=begun.clusters)


async def _restore_postgres(options: ServerOptions, found: Backup, progress: Progress) -> Restored:
    url = options.database()
    store, claim = await open_claimed(url)
    try:
        now_there = await store.read(newest_mark)
        aside = None
        if now_there is not None:
            aside = _free_name(options.data_dir / "rainbow.db")
            await asyncio.to_thread(back_up, url, aside, progress)
        with scratch_file(options.data_dir / "rainbow-restored.db") as scratch:
            await asyncio.to_thread(copy_file, found.path, scratch, progress)
            begun = await _begin(scratch, _marks(options, now_there))
            await asyncio.to_thread(fill_postgres, url, scratch, claim, progress)
        _keep_mark(options, begun)
    finally:
        await store.close()
    return Restored(generation=begun.generation, backup=found, set_aside=aside, clusters=begun.clusters)


async def accept_loss(options: ServerOptions) -> Restored:
    """Continue with the database as it is, as after a restore. ClaimTaken: a server is running."""
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = sqlite_path(options.database())
    aside = None
    if path is not None and not (path.exists() and path.stat().st_size > 0):
        lock = lock_file(path, 0.0)
        try:
            aside = _set_aside(path)  # the new database must not use the log of the missing one
        finally:
            os.close(lock)
    store, _ = await open_claimed(options.database())
    try:
        begun = await _begin_in(store, _marks(options, None))
        token = await first_administrator(store, Ids(), time.time())
        if token is not None:
            write_secret(options.data_dir / ADMIN_FILE, token)
        _keep_mark(options, begun)
    finally:
        await store.close()
    admin = options.data_dir / ADMIN_FILE if token is not None else None
    return Restored(
        generation=begun.generation, backup=None, set_aside=aside, clusters=begun.clusters, admin_token=admin
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewGeneration:
    generation: Generation
    last_event: int
    clusters: int


async def _begin(copy: Path, seen: Sequence[HistoryMark]) -> _NewGeneration:
    """Migrate a copy to the current schema, and begin the restore in it."""
    store = await open_store(f"sqlite:///{quote(str(copy))}")
    try:
        return await _begin_in(store, seen)
    finally:
        await store.close()


async def _begin_in(store: Store, seen: Sequence[HistoryMark]) -> _NewGeneration:
    id, now = Ids().fence(), time.time()

    def work(tx: Tx) -> _NewGeneration:
        generation = tx.begin_restore(id, now, seen)
        return _NewGeneration(generation=generation, last_event=tx.last_seq(), clusters=len(tx.restore_reports()))

    return await store.write(work)


def _marks(options: ServerOptions, there: HistoryMark | None) -> list[HistoryMark]:
    """Return the recorded marks of the database, whose numbers must not be reused."""
    return [mark for mark in (read_mark(options.data_dir), there) if mark is not None]


def _keep_mark(options: ServerOptions, begun: _NewGeneration) -> None:
    marks = MarkFile(options.data_dir)
    marks.begin(begun.generation, begun.last_event)
    marks.close()


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for n in itertools.count():
        name = path.with_name(f"{path.stem}-before-restore-{stamp}{f'-{n}' if n else ''}{path.suffix}")
        if not name.exists():
            return name
    raise AssertionError


def _set_aside(path: Path) -> Path | None:
    """Rename a SQLite database with its log; return its new name, or None if there was none."""
    new = _free_name(path)
    there = [suffix for suffix in ("", "-wal", "-shm") if path.with_name(path.name + suffix).exists()]
    for suffix in there:
        os.rename(path.with_name(path.name + suffix), new.with_name(new.name + suffix))
    sync(path.parent)
    return new if there else None
