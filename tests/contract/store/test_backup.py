"""A backup is a consistent copy of either database, and either can be filled from it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rainbow_sched.model.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound, RainbowError
from rainbow_sched.model.job import Terms
from rainbow_sched.store import Store, open_store
from rainbow_sched.store.backup import back_up, fill_postgres, inspect, last_mark, tables
from rainbow_sched.store.base import Dependency, JobSelection
from rainbow_sched.store.claim import Claimant, Replaced, take_over
from rainbow_sched.store.factory import open_claimed
from rainbow_sched.store.postgres import _end_sessions
from tests.contract.store.builders import a_draft, an_offer
from tests.contract.store.claiming import ELSEWHERE, row_of, sessions, steal
from tests.support.postgres import Postgres


async def filled(url: str) -> Store:
    """A store with rows in most tables: texts with every kind of character, blobs, floats, numbers above 32 bits."""
    store, _ = await open_claimed(url)
    await store.write(lambda tx: tx.begin_generation("first", 0.1))
    labels = {"team": "bio", "ü": "\n\t'\"\\N 🌈"}
    job = await an_offer(store, terms=Terms(labels=labels, priority=-7, start_after=2.0**37 + 1 / 3))
    await store.write(lambda tx: tx.append_output(job.id, 1, "stdout", 0, bytes(range(256)), 0.3))
    after = (Dependency("afterok", job.id),)
    await store.write(lambda tx: tx.add_jobs([a_draft(name=f"job {i}", waits_for=after) for i in range(300)]))
    return store


async def fill(target: str, copy: Path) -> None:
    """As `rainbow server restore` fills a database: with the claim on it."""
    store, claim = await open_claimed(target)
    try:
        await asyncio.to_thread(fill_postgres, target, copy, claim)
    finally:
        await store.close()


def rows_of(path: Path) -> dict[str, set[tuple[Any, ...]]]:
    """Everything in a SQLite file, by table."""
    connection = sqlite3.connect(path)
    try:
        return {
            table: set(connection.execute(f'SELECT {", ".join(columns)} FROM "{table}"'))
            for table, columns in tables(connection).items()
        }
    finally:
        connection.close()


def rows_in(url: str, path: Path) -> dict[str, set[tuple[Any, ...]]]:
    """Everything in a PostgreSQL database, in the columns of a SQLite file."""
    connection = sqlite3.connect(path)
    try:
        columns_of = tables(connection)
    finally:
        connection.close()
    with psycopg.connect(url) as source:
        return {
            table: set(source.execute(f'SELECT {", ".join(columns)} FROM "{table}"').fetchall())  # type: ignore[arg-type]
            for table, columns in columns_of.items()
        }


async def test_a_backup_of_either_database_holds_every_row(url: str, tmp_path: Path) -> None:
    store = await filled(url)
    copy = tmp_path / "copy.db"
    made = await asyncio.to_thread(back_up, url, copy)
    last = await store.read(lambda tx: tx.last_seq())
    await store.close()
    assert (made.path, made.jobs, made.last_event) == (copy, 301, last)
    assert made == inspect(copy)
    assert copy.stat().st_mode & 0o077 == 0
    kept = rows_of(copy)
    there = rows_of(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite") else rows_in(url, copy)
    assert kept == there
    filled_tables = {name for name, rows in kept.items() if rows}
    assert {"jobs", "labels", "dependencies", "attempts", "events", "texts", "output", "counters"} <= filled_tables
    assert "generations" in filled_tables
    reopened = await open_store(f"sqlite:///{copy}")
    assert len(await reopened.read(lambda tx: tx.list_jobs(JobSelection(), limit=1000))) == 301
    await reopened.close()


async def test_both_databases_have_the_same_tables_and_columns(tmp_path: Path, postgres: Postgres) -> None:
    """What the schema has in one and not in the other would be missing from a backup."""
    store = await open_store(f"sqlite:///{tmp_path}/a.db")
    await store.close()
    url = postgres.new_database()
    other = await open_store(url)
    await other.close()
    connection = sqlite3.connect(tmp_path / "a.db")
    ours = {table: set(columns) for table, columns in tables(connection).items()}
    connection.close()
    with psycopg.connect(url) as source:
        theirs: dict[str, set[str]] = {}
        for table, column in source.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' "
            "AND table_name NOT IN ('claims', 'schema_versions')"
        ):
            theirs.setdefault(table, set()).add(column)
    assert ours == theirs


async def test_a_backup_of_either_can_be_put_into_postgres(url: str, tmp_path: Path, postgres: Postgres) -> None:
    store = await filled(url)
    copy, target = tmp_path / "copy.db", postgres.new_database()
    await asyncio.to_thread(back_up, url, copy)
    await store.close()
    before = await filled(target)  # it is replaced
    await before.write(lambda tx: tx.add_jobs([a_draft(name="of the other database")]))
    await before.close()
    await fill(target, copy)
    assert rows_in(target, copy) == rows_of(copy)
    with psycopg.connect(target) as connection:
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (1,), "the claim is not part of it"


async def test_a_backup_that_cannot_be_put_in_changes_nothing(tmp_path: Path, postgres: Postgres) -> None:
    target = postgres.new_database()
    store = await filled(target)
    await store.close()
    copy = tmp_path / "copy.db"
    await asyncio.to_thread(back_up, target, copy)
    before = rows_in(target, copy)
    connection = sqlite3.connect(copy)
    connection.execute("UPDATE jobs SET spec = 999999 WHERE id = 300")  # names a text that is not there
    connection.commit()
    connection.close()
    with pytest.raises(RainbowError):
        await fill(target, copy)
    assert rows_in(target, copy) == before


async def test_who_was_replaced_while_it_restored_changes_nothing(tmp_path: Path, postgres: Postgres) -> None:
    """The restore stood still until a server took the claim: before its transaction, or in the middle of it."""
    target, copy = postgres.new_database(), tmp_path / "copy.db"
    store = await filled(target)
    await store.close()
    await asyncio.to_thread(back_up, target, copy)
    store, claim = await open_claimed(target)
    try:
        before = rows_in(target, copy)
        steal(target)
        with pytest.raises(Replaced):
            await asyncio.to_thread(fill_postgres, target, copy, claim)
        assert rows_in(target, copy) == before
    finally:
        await store.close()

    store, claim = await open_claimed(target)
    frozen, replaced = threading.Event(), threading.Event()

    def stand_still(what: str, share: float) -> None:
        if what == "jobs":
            frozen.set()
            assert replaced.wait(30)

    try:
        filling = asyncio.create_task(asyncio.to_thread(fill_postgres, target, copy, claim, stand_still))
        assert await asyncio.to_thread(frozen.wait, 30)
        with sessions(target) as [session]:
            row = row_of(session)
            _end_sessions(session, row)
            assert take_over(session, row_of(session), Claimant("thief", ELSEWHERE)) is not None
        replaced.set()
        with pytest.raises(RainbowError):
            await filling
        assert rows_in(target, copy) == before
    finally:
        await store.close()


async def test_a_backup_made_under_load_is_one_moment(url: str, tmp_path: Path) -> None:
    """Two jobs are added in each write: a copy never has an odd number, and each of its events has its job."""
    store = await filled(url)
    done = asyncio.Event()

    async def load() -> int:
        count = 0
        while not done.is_set():
            await store.write(lambda tx: tx.add_jobs([a_draft(name="pair"), a_draft(name="pair")]))
            count += 1
        return count

    writing = asyncio.create_task(load())
    for i in range(5):
        made = await asyncio.to_thread(back_up, url, tmp_path / f"{i}.db")
        assert (made.jobs - 301) % 2 == 0
        connection = sqlite3.connect(tmp_path / f"{i}.db")
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (made.jobs,)
        assert connection.execute("SELECT max(seq) FROM events").fetchone() == (made.last_event,)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()
    done.set()
    assert await writing > 5
    await store.close()


async def test_a_backup_overwrites_nothing_and_leaves_nothing_half_made(sqlite_url: str, tmp_path: Path) -> None:
    store = await filled(sqlite_url)
    there = tmp_path / "there.db"
    there.write_text("mine")
    with pytest.raises(AlreadyExists, match="overwrites nothing"):
        back_up(sqlite_url, there)
    assert there.read_text() == "mine"
    with pytest.raises(NotFound, match="does not exist"):
        back_up(sqlite_url, tmp_path / "no" / "copy.db")
    with pytest.raises(NotFound):
        back_up(f"sqlite:///{tmp_path}/other.db", tmp_path / "copy.db")
    assert not (tmp_path / "other.db").exists(), "asking for a backup makes no database"
    assert [name for name in os.listdir(tmp_path) if "copy" in name] == []
    await store.close()


async def test_an_empty_postgres_is_no_database_of_rainbow(postgres: Postgres, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no tables"):
        back_up(postgres.new_database(), tmp_path / "copy.db")
    assert os.listdir(tmp_path) == []


async def test_an_invalid_backup_is_rejected_with_its_defect(sqlite_url: str, tmp_path: Path) -> None:
    store = await filled(sqlite_url)
    copy = tmp_path / "copy.db"
    back_up(sqlite_url, copy)
    await store.close()
    whole = copy.read_bytes()
    page = 4096 * (len(whole) // 4096 // 2)
    copy.write_bytes(whole[:page] + b"\xff" * 4096 + whole[page + 4096 :])
    with pytest.raises(Corrupt, match="damaged"):
        inspect(copy)
    copy.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Corrupt, match="damaged"):
        inspect(copy)
    copy.unlink()
    other = sqlite3.connect(copy)
    other.execute("CREATE TABLE t (a)")
    other.commit()
    other.close()
    with pytest.raises(Invalid, match="not a backup of a Rainbow database"):
        inspect(copy)
    copy.write_bytes(whole)
    newer = sqlite3.connect(copy)
    newer.execute("INSERT INTO schema_versions VALUES (999, 'newer')")
    newer.commit()
    newer.close()
    with pytest.raises(Conflict, match="newer Rainbow"):
        inspect(copy)


async def test_the_last_mark_is_how_far_the_database_has_come(sqlite_url: str, tmp_path: Path) -> None:
    store = await filled(sqlite_url)
    last = await store.read(lambda tx: tx.last_seq())
    await store.close()
    mark = last_mark(Path(sqlite_url.removeprefix("sqlite:///")))
    assert mark is not None
    assert (mark.generation, mark.id, mark.event) == (1, "first", last)
    assert last_mark(tmp_path / "none.db") is None
    (tmp_path / "bad.db").write_bytes(b"x" * 10_000)
    assert last_mark(tmp_path / "bad.db") is None
