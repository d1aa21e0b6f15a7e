"""The one thread that writes goes on after whatever happened to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rainbow.model.errors import Unavailable
from rainbow.store.base import Tx
from rainbow.store.sqlite import open_sqlite


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
async def test_what_the_database_cannot_do_for_now_can_be_asked_for_again(tmp_path: Path, name: str) -> None:
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
