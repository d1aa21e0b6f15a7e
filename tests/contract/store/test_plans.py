"""What is asked of a long table is read from an index: no scan, and nothing sorted that could be long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store import Store, Tx, open_store
from rainbow_sched.store.base import JobSelection
from rainbow_sched.store.named_sql import of_rows, statement
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft

ANA, BOTH = frozenset({"user:ana"}), frozenset({"user:ana", "user:bob"})
HELD, LIVING = frozenset({JobState.HELD}), frozenset(state for state in JobState if not state.terminal)
FILTERS = {
    "state": JobSelection(states=HELD),
    "states": JobSelection(states=LIVING),
    "owner": JobSelection(owners=ANA),
    "owners": JobSelection(owners=BOTH),
    "owner and state": JobSelection(owners=ANA, states=HELD),
    "label": JobSelection(labels={"team": "x"}),
    "labels": JobSelection(labels={"team": "x", "run": "1"}),
    "label and state": JobSelection(labels={"team": "x"}, states=HELD),
    "label and owner": JobSelection(labels={"team": "x"}, owners=ANA),
    "name": JobSelection(name="sleep"),
    "name and state": JobSelection(name="sleep", states=LIVING),
    "cluster": JobSelection(cluster="perl"),
    "cluster and owner": JobSelection(cluster="perl", owners=ANA),
    "time": JobSelection(since=50.0),
    "time and state": JobSelection(since=50.0, states=HELD),
    "time and owner": JobSelection(since=50.0, owners=ANA),
    "ids": JobSelection(ids=frozenset({1, 2})),
}
QUESTIONS: dict[str, Callable[[Tx], object]] = {
    "queued": lambda tx: tx.queued_ids(9, 1),
    "waiting": lambda tx: tx.waiting(Hold.NOTHING_FITS, 9, 1),
    "placed_attempts": lambda tx: tx.placed_attempts("perl"),
    "due": lambda tx: tx.due_jobs(5.0, 9),
    "lapsed": lambda tx: tx.lapsed(5.0, 9),
    "offered": lambda tx: tx.attempts_in("perl", AttemptState.OFFERED, 9),
    "live": lambda tx: tx.count_live("perl"),
    "commands": lambda tx: tx.commands("perl"),
    "events": lambda tx: tx.events(1, 9),
    "events of a job": lambda tx: tx.events(1, 9, job=1),
    "waiters": lambda tx: tx.waiters(1, 0, 9),
    "tokens": lambda tx: tx.jobs_by_tokens("user:ana", ["t"]),
    "output": lambda tx: tx.output(1, 1, "stdout", 0, 9),
}
SHORT = ("counters", "clusters")  # tables that stay short


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Store]:
    opened = await open_store(sqlite_url)
    await a_cluster(opened)
    terms = Terms(labels={"team": "x", "run": "1"})
    drafts = [a_draft(terms=terms, submitted_at=100.0), a_bound_draft(submitted_at=101.0)]
    await opened.write(lambda tx: tx.add_jobs(drafts))
    yield opened
    await opened.close()


def plan(tx: Tx, ask: Callable[[Tx], object]) -> list[str]:
    """The steps of every statement that a question leads to."""
    session = tx.db  # type: ignore[attr-defined]  # only this test looks behind the verbs
    asked: list[tuple[str, dict[str, object]]] = []
    original = session.rows_of

    def noting(text: str, values: dict[str, object]) -> object:
        asked.append((text, dict(values)))
        return original(text, values)

    session.rows_of = noting
    try:
        ask(tx)
    finally:
        del session.rows_of
    return [row[3] for text, values in asked for row in original(f"EXPLAIN QUERY PLAN {text}", values)]


def slow(steps: list[str]) -> list[str]:
    """Steps that take longer the longer a table is."""
    return [
        step
        for step in steps
        if ("SCAN" in step and not step.endswith(SHORT)) or ("TEMP B-TREE" in step and "LAST TERM" not in step)
    ]


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("after", [None, 2], ids=["first page", "next page"])
async def test_a_list_page_is_a_range_of_an_index(sqlite: Store, name: str, after: int | None) -> None:
    which = FILTERS[name]
    steps = await sqlite.read(lambda tx: plan(tx, lambda tx: tx.list_jobs(which, after=after, limit=100)))
    assert steps
    assert slow(steps) == []


@pytest.mark.parametrize("name", QUESTIONS)
async def test_what_a_server_asks_all_the_time_is_found_by_an_index(sqlite: Store, name: str) -> None:
    steps = await sqlite.read(lambda tx: plan(tx, QUESTIONS[name]))
    assert steps
    assert slow(steps) == []


async def test_a_lease_takes_the_first_offers_from_an_index(sqlite: Store) -> None:
    steps = await sqlite.write(lambda tx: plan(tx, lambda tx: tx.lease("perl", 50, "agent", 60.0)))
    assert any("attempts_queue" in step for step in steps)
    assert slow(steps) == []


@pytest.mark.parametrize("query", ["apply_decisions", "touch_jobs"])
async def test_a_change_of_many_jobs_at_once_finds_each_by_its_id(sqlite: Store, query: str) -> None:
    def steps(tx: Tx) -> list[str]:
        one = statement(tx.db.text(query), "?")  # type: ignore[attr-defined]  # as above
        text = of_rows(one.fixed, 64)
        values = {f"v{'x' * i}": 1 for i in range(64 * len(one.parameters))}
        for name in values:
            text = text.replace("?", f":{name}", 1)
        return [row[3] for row in tx.db.rows_of(f"EXPLAIN QUERY PLAN {text}", values)]  # type: ignore[attr-defined]

    assert "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)" in await sqlite.read(steps)


async def test_this_test_knows_a_scan_when_it_sees_one(sqlite: Store) -> None:
    def scan(tx: Tx) -> object:
        return tx.db.rows_of("SELECT id FROM jobs WHERE reason = :reason ORDER BY reason, id", {"reason": ""})  # type: ignore[attr-defined]  # as above

    assert slow(await sqlite.read(lambda tx: plan(tx, scan)))
