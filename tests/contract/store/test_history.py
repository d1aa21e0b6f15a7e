"""Events, decisions, output and answers come back complete, in order, and once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Corrupt, NotFound
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store import Store, Tx
from tests.contract.store.builders import a_cluster, a_draft, a_job, an_offer
from tests.contract.store.test_lists import Undo


async def test_events_are_read_from_a_number_on_of_one_job_or_some_owners(store: Store) -> None:
    await store.write(lambda tx: tx.add_jobs([a_draft(owner=owner) for owner in ("ana", "bob", "eve", "ana")]))

    async def seqs(after: int, limit: int, **of: object) -> list[int]:
        return [e.seq for e in await store.read(lambda tx: tx.events(after, limit, **of))]  # type: ignore[arg-type]

    assert await seqs(0, 10) == [1, 2, 3, 4]
    assert await seqs(1, 2) == [2, 3]
    assert await seqs(0, 10, job=2) == [2]
    assert await seqs(0, 10, owners=["ana", "eve"]) == [1, 3, 4]
    assert await seqs(3, 10, owners=["ana", "eve"]) == [4]
    assert await seqs(0, 10, owners=[]) == []
    assert await seqs(0, 10, job=2, owners=["ana"]) == []
    assert await store.read(lambda tx: tx.last_seq()) == 4


FIRST, SECOND = (
    StoredDecision('{"why":"nothing fits"}', "a fleet"),
    StoredDecision('{"why":"still nothing"}', "a fleet"),
)
PERL = StoredDecision('{"why":"perl"}', "another fleet")


async def test_the_newest_decision_of_an_attempt_replaces_the_one_before(store: Store) -> None:
    await a_job(store)
    for n, at, record in ((0, 1.0, FIRST), (0, 2.0, SECOND), (1, 3.0, PERL)):
        await store.write(lambda tx, n=n, at=at, record=record: tx.put_decision(1, n, at, record))
    assert await store.read(lambda tx: tx.decisions(1)) == [(0, 2.0, SECOND), (1, 3.0, PERL)]
    assert await store.read(lambda tx: (tx.decision(1), tx.decision(1, 0), tx.decision(1, 7), tx.decision(2))) == (
        PERL,
        SECOND,
        None,
        None,
    )


async def test_a_decision_that_changed_on_disk_is_refused(store: Store) -> None:
    await a_job(store, a_draft(decision=StoredDecision("{}", "one"), spec="two"))
    await store.write(lambda tx: tx.db.run("UPDATE texts SET body = digest WHERE id = 2"))
    with pytest.raises(Corrupt):
        await store.read(lambda tx: tx.decision(1))


writes = st.tuples(st.integers(0, 12), st.binary(max_size=6))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=st.lists(writes, max_size=8),
    cuts=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 6)), max_size=2),
    reads=st.lists(st.tuples(st.integers(0, 15), st.integers(1, 9)), min_size=1, max_size=4),
)
async def test_output_is_what_a_sparse_array_of_bytes_would_hold(
    store: Store, chunks: list[tuple[int, bytes]], cuts: list[tuple[int, int]], reads: list[tuple[int, int]]
) -> None:
    held: dict[int, int] = {}

    def work(tx: Tx) -> None:
        end = 0
        for offset, data in chunks:
            tx.append_output(1, 1, "stdout", offset, data, 1.0)
            held.update({i: byte for i, byte in enumerate(data, offset) if i >= end})
            end = max(held, default=-1) + 1
            assert tx.output_size(1, 1, "stdout") == end
        for start, length in cuts:
            tx.cut_output(1, 1, "stdout", start, start + length)
            for i in range(start, start + length):
                held.pop(i, None)
        for offset, limit in reads:
            stop = offset
            while stop in held and stop < offset + limit:
                stop += 1
            assert tx.output(1, 1, "stdout", offset, limit) == bytes(held[i] for i in range(offset, stop))
            assert tx.next_output(1, 1, "stdout", offset) == min((i for i in held if i >= offset), default=None)
        assert tx.output(1, 1, "stderr", 0, 9) == b""
        raise Undo

    held.clear()
    with pytest.raises(Undo):
        await store.write(work)


async def test_the_same_message_gets_the_same_answer_and_only_the_last_is_kept(store: Store) -> None:
    await a_cluster(store)
    assert await store.read(lambda tx: tx.agent_epoch("perl")) is None
    await store.write(lambda tx: tx.store_sync("perl", "e1", 1, b"one"))
    assert await store.read(lambda tx: tx.stored_sync("perl", "e1", 1)) == b"one"
    await store.write(lambda tx: tx.store_sync("perl", "e1", 2, b"two"))
    for epoch, seq, answer in (("e1", 1, None), ("e1", 2, b"two"), ("e2", 2, None)):
        assert await store.read(lambda tx, e=epoch, s=seq: tx.stored_sync("perl", e, s)) == answer
    assert await store.read(lambda tx: tx.agent_epoch("perl")) == "e1"
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.store_sync("nowhere", "e1", 1, b""))


async def test_small_settings_and_sizes(store: Store) -> None:
    job = await an_offer(store)
    await store.write(lambda tx: tx.update_job(job, JobEvent.UPDATED, 2.0))
    assert await store.read(lambda tx: tx.meta("ca")) is None
    await store.write(lambda tx: tx.set_meta("ca", "old"))
    await store.write(lambda tx: tx.set_meta("ca", "new"))
    assert await store.read(lambda tx: tx.meta("ca")) == "new"
    sizes = await store.read(lambda tx: tx.sizes())
    assert sizes.pop("bytes") > 0
    assert sizes == {"jobs": 1, "attempts": 1, "events": 3, "audit": 0, "clusters": 1}
