"""The writer thread continues after any failure."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Conflict, Unavailable
from rainbow_sched.store.base import Tx
from rainbow_sched.store.sqlite import BUSY_SECONDS, open_sqlite
from rainbow_sched.store.writer import Writer, WriteRequest


async def test_a_transaction_that_could_not_be_undone_stops_one_write_and_not_all_after_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")
    try:
        store._writer.session.run("BEGIN")  # as it is left when a rollback fails, too
        with pytest.raises(Unavailable):
            await store.write(lambda tx: tx.set_meta("a", "lost"))
        await store.write(lambda tx: tx.set_meta("b", "kept"))
        assert await store.read(lambda tx: (tx.meta("a"), tx.meta("b"))) == (None, "kept")
    finally:
        await store.close()


@pytest.mark.parametrize("name", ["SQLITE_LOCKED_SHAREDCACHE", "SQLITE_PROTOCOL", "SQLITE_FULL"])
async def test_transient_database_errors_can_be_retried(tmp_path: Path, name: str) -> None:
    def work(tx: Tx) -> None:
        error = sqlite3.OperationalError("not now")
        error.sqlite_errorname = name
        raise error

    store = open_sqlite(tmp_path / "x.db")
    try:
        with pytest.raises(Unavailable, match="cannot be used now"):
            await store.write(work)
    finally:
        await store.close()


def _asked(work: Callable[[Tx], object]) -> WriteRequest:
    loop = asyncio.get_running_loop()
    return WriteRequest(work, loop, loop.create_future())


async def test_a_brief_work_runs_in_the_callers_thread_and_its_commit_elsewhere(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")
    try:
        assert await store.write(lambda tx: threading.get_ident(), brief=True) == threading.get_ident()
        assert await store.write(lambda tx: threading.get_ident()) != threading.get_ident()
    finally:
        await store.close()


async def test_the_event_loop_does_not_wait_for_a_database_lock(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        writing = asyncio.create_task(store.write(lambda tx: threading.get_ident(), brief=True))
        await asyncio.sleep(0)  # it returns while the lock is held
        assert time.monotonic() - begun < BUSY_SECONDS / 2
        assert not writing.done()
        other.execute("COMMIT")
        assert await writing != threading.get_ident()
    finally:
        other.close()
        await store.close()


async def test_brief_works_are_retried_if_their_transaction_broke_before_its_commit(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")
    writer, runs = store._writer, []

    def breaks(tx: Tx) -> None:
        runs.append(threading.get_ident())
        tx.set_meta("b", "stored")
        if len(runs) == 1:
            tx.db.run("ROLLBACK")  # type: ignore[attr-defined]  # as SQLite does by itself when the disk is full

    try:
        first, second = _asked(lambda tx: tx.set_meta("a", "stored")), _asked(breaks)
        assert writer._run_here(first)
        assert not writer._run_here(second)
        writer._queue.put(second)
        async with asyncio.timeout(20):
            await asyncio.gather(first.future, second.future)
        assert await store.read(lambda tx: (tx.meta("a"), tx.meta("b"))) == ("stored", "stored")
        assert len(runs) == 2
    finally:
        await store.close()


async def test_a_brief_work_that_fails_leaves_those_before_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")

    def fails(tx: Tx) -> None:
        tx.set_meta("b", "never")
        raise Conflict("on purpose")

    try:
        asked = [_asked(lambda tx: tx.set_meta("a", "stored")), _asked(fails), _asked(lambda tx: tx.set_meta("c", "z"))]
        assert [store._writer._run_here(one) for one in asked] == [True, True, True]
        await store.write(lambda tx: tx.set_meta("d", "with them"))
        assert store.counts.commits == 1
        with pytest.raises(Conflict):
            await asked[1].future
        stored = await store.read(lambda tx: [tx.meta(key) for key in "abcd"])
        assert stored == ["stored", None, "z", "with them"]
    finally:
        await store.close()


async def test_a_brief_work_without_a_commit_is_undone_and_fails(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")
    asked = [_asked(lambda tx: tx.set_meta("a", "never")) for _ in range(2)]
    assert store._writer._run_here(asked[0])  # nobody tells the thread to commit it
    store._writer._closing.set()
    assert not store._writer._run_here(asked[1])
    store._writer._queue.put(None)
    await store.close()
    with pytest.raises(Unavailable, match="closed"):
        await asked[0].future
    again = open_sqlite(tmp_path / "x.db")
    assert await again.read(lambda tx: tx.meta("a")) is None
    await again.close()


async def test_half_a_brief_work_is_not_committed_with_those_before_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "x.db")

    def interrupted(tx: Tx) -> None:
        tx.set_meta("b", "never")
        raise KeyboardInterrupt

    try:
        first = _asked(lambda tx: tx.set_meta("a", "stored"))
        assert store._writer._run_here(first)
        with pytest.raises(KeyboardInterrupt):
            store._writer._run_here(_asked(interrupted))
        async with asyncio.timeout(20):
            await first.future
        await store.write(lambda tx: tx.set_meta("c", "stored"), brief=True)
        assert await store.read(lambda tx: [tx.meta(key) for key in "abc"]) == ["stored", None, "stored"]
    finally:
        await store.close()


async def test_undoing_a_brief_work_does_not_wait_for_a_lock_in_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_sqlite(tmp_path / "x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    session, threads = store._writer.session, []
    real = session.rollback

    def rollback() -> None:
        monkeypatch.undo()
        real()
        other.execute("BEGIN IMMEDIATE")  # somebody is quicker

    def fails(tx: Tx) -> None:
        threads.append(threading.get_ident())
        raise Conflict("on purpose")

    monkeypatch.setattr(session, "rollback", rollback)
    try:
        begun = time.monotonic()
        writing = asyncio.create_task(store.write(fails, brief=True))
        await asyncio.sleep(0)  # it returns while the lock is held
        assert time.monotonic() - begun < BUSY_SECONDS / 2
        other.execute("COMMIT")
        with pytest.raises(Conflict):
            await writing
        assert [thread == threading.get_ident() for thread in threads] == [True, False]
    finally:
        other.close()
        await store.close()


async def test_a_write_during_close_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_sqlite(tmp_path / "x.db")

    def too_late(writer: Writer, _: WriteRequest) -> bool:
        writer.close()  # as another thread does, after it was looked whether it is open
        return False

    monkeypatch.setattr(Writer, "_run_here", too_late)
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="closed"):
            await store.write(lambda tx: tx.set_meta("a", "never"), brief=True)
    await store.close()
