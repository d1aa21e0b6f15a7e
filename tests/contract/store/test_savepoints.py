"""A part of a transaction that fails is undone alone; the rest of the transaction is committed."""

from __future__ import annotations

import pytest

from rainbow_sched.model.errors import AlreadyExists, RainbowError
from rainbow_sched.store import Store
from rainbow_sched.store.base import Tx
from tests.contract.store.builders import a_draft


async def test_what_fails_in_a_savepoint_is_undone_with_its_numbers_and_nothing_else(store: Store) -> None:
    def work(tx: Tx) -> list[int]:
        first = tx.add_jobs([a_draft()])
        with pytest.raises(ValueError, match="half way"), tx.savepoint():
            tx.add_jobs([a_draft(), a_draft()])
            tx.set_meta("half", "done")
            raise ValueError("half way")
        with tx.savepoint():
            tx.set_meta("kept", "yes")
        return first + tx.add_jobs([a_draft()])

    assert await store.write(work) == [1, 2]
    assert await store.read(lambda tx: (tx.meta("half"), tx.meta("kept"), tx.last_seq())) == (None, "yes", 2)


async def test_an_error_of_the_database_in_a_savepoint_is_one_of_ours_and_leaves_the_transaction_usable(
    store: Store,
) -> None:
    def work(tx: Tx) -> None:
        tx.add_cluster("perl", 1.0)
        with pytest.raises(RainbowError), tx.savepoint():
            tx.set_meta("no", "a\0b")
        with pytest.raises(AlreadyExists), tx.savepoint():
            tx.add_cluster("perl", 2.0)
        with pytest.raises(RainbowError), tx.savepoint():
            tx.append_output(1, 1, "stdout", 2**63, b"xx", 1.0)
        tx.add_cluster("other", 3.0)

    await store.write(work)
    assert [cluster.name for cluster in await store.read(lambda tx: tx.clusters())] == ["other", "perl"]
