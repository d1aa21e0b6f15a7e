"""A URL that cannot be opened is reported with cause and remedy."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Corrupt, Invalid, Unavailable
from rainbow_sched.store import open_store, sqlite
from rainbow_sched.store.base import JobSelection


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("mysql://db", "use sqlite:///FILE or postgresql://"),
        ("rainbow.db", "use sqlite:///FILE or postgresql://"),
        ("sqlite://", "sqlite:///FILE"),
        ("sqlite:///", "sqlite:///FILE"),
        ("sqlite:////no/such/folder/x.db", "does not exist: create it"),
        ("postgresql://h/d?no_such_option=1", "write postgresql://USER@HOST/DATABASE"),
    ],
)
async def test_a_wrong_url_says_what_would_be_right(url: str, right: str) -> None:
    with pytest.raises(Invalid, match=right):
        await open_store(url)


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is a folder"):
        await open_store(f"sqlite:///{tmp_path}")


async def test_an_unreachable_postgresql_is_unavailable_and_no_password_is_shown() -> None:
    with pytest.raises(Unavailable) as refused:
        await open_store("postgresql://ana:sesame@127.0.0.1:1/rainbow")
    assert "sesame" not in str(refused.value)


async def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all" * 500)
    with pytest.raises(Corrupt, match="restore it from a backup"):
        await open_store(f"sqlite:///{tmp_path / 'x.db'}")


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_only_the_owner_can_read_the_files_and_commits_are_forced_to_disk(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store(f"sqlite:///{tmp_path / 'a b%25.db'}")
        await store.write(lambda tx: tx.set_meta("a", "b"))
    finally:
        os.umask(before)
    modes = modes_in(tmp_path)
    assert modes.keys() >= {"a b%.db", "a b%.db-wal", "a b%.db.lock"}
    assert set(modes.values()) == {0o600}

    def pragma(name: str) -> object:
        return store._writer.session.rows_of(f"PRAGMA {name}", {})[0][0]  # type: ignore[attr-defined]

    assert (pragma("journal_mode"), pragma("synchronous"), pragma("foreign_keys")) == ("wal", 2, 1)
    await store.close()


async def test_a_path_relative_to_here_is_taken_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store("sqlite:///here.db")
    await store.close()
    assert (tmp_path / "here.db").exists()


async def test_a_full_disk_is_reported_and_earlier_writes_stay(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'x.db'}")
    await store.write(lambda tx: tx.set_meta("kept", "yes"))
    pages = await store.write(lambda tx: tx.db.rows_of("PRAGMA page_count", {})[0][0])  # type: ignore[attr-defined]
    await store.write(lambda tx: tx.db.rows_of(f"PRAGMA max_page_count = {pages + 8}", {}))  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="full"):
        await store.write(lambda tx: tx.put_user("x" * 200_000, 1.0))
    await store.write(lambda tx: tx.db.rows_of("PRAGMA max_page_count = 1000000", {}))  # type: ignore[attr-defined]
    await store.write(lambda tx: tx.put_user("x" * 200_000, 1.0))
    assert await store.read(lambda tx: (tx.meta("kept"), tx.count_jobs(JobSelection()))) == ("yes", {})
    await store.close()


async def test_a_file_locked_by_another_process_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = replace(sqlite.DIALECT, begin_write=("PRAGMA busy_timeout = 1", "BEGIN IMMEDIATE"))
    monkeypatch.setattr(sqlite, "DIALECT", impatient)
    store = await open_store(f"sqlite:///{tmp_path / 'x.db'}")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await store.write(lambda tx: tx.set_meta("a", "b"))
    other.execute("ROLLBACK")
    other.close()
    await store.write(lambda tx: tx.set_meta("a", "b"))
    await store.close()


async def test_an_old_sqlite_is_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 31, 1))
    with pytest.raises(Unavailable, match=r"3\.35 or newer is needed: use another build of Python, or PostgreSQL"):
        await open_store(f"sqlite:///{tmp_path}/rainbow.db")
    assert os.listdir(tmp_path) == []
