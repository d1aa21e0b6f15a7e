"""A database knows its own history, and passes over what may have been given out in a history that it has lost."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import Conflict
from rainbow_sched.model.generation import MIN_SKIPPED_IDS, SKIPPED_ATTEMPTS, Cause, HistoryMark
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store import Store, open_store
from rainbow_sched.store.base import ReportState, Tx
from rainbow_sched.store.factory import open_claimed
from rainbow_sched.store.mark_file import MarkFile, read_mark
from rainbow_sched.store.records import DecidedJob, RestoreFinding
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft


async def test_each_start_is_a_generation_that_is_told_apart(store: Store) -> None:
    first = await store.write(lambda tx: tx.begin_generation("a", 1.0))
    await store.write(lambda tx: tx.add_jobs([a_draft()]))
    last = await store.read(lambda tx: tx.last_seq())
    second = await store.write(lambda tx: tx.begin_generation("b", 2.0))
    assert (first.number, first.cause, first.after_event) == (1, Cause.START, 0)
    assert (second.number, second.after_event) == (2, last)
    assert await store.read(lambda tx: tx.generations()) == [first, second]


async def test_a_mark_is_lost_if_its_generation_is_unknown_or_went_further_elsewhere(store: Store) -> None:
    await store.write(lambda tx: tx.begin_generation("a", 1.0))
    await store.write(lambda tx: tx.add_jobs([a_draft()]))
    last = await store.read(lambda tx: tx.last_seq())
    await store.write(lambda tx: tx.begin_generation("b", 2.0))
    await store.write(lambda tx: tx.add_jobs([a_draft(), a_draft()]))  # more events than the lost history had
    lost = {
        HistoryMark(1, "a", last): False,
        HistoryMark(1, "a", last + 1): True,
        HistoryMark(2, "b", last + 1): False,
        HistoryMark(2, "b", last + 1000): True,
        HistoryMark(2, "c", last): True,
        HistoryMark(3, "b", last): True,
    }
    assert {mark: await store.read(lambda tx, m=mark: tx.has_lost(m)) for mark in lost} == lost


async def test_a_restore_passes_over_all_numbers_that_may_have_been_given(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.begin_generation("a", 1.0))
    [queued, bound] = await store.write(lambda tx: tx.add_jobs([a_draft(), a_bound_draft()]))
    leased = await store.write(lambda tx: tx.lease("perl", 1, "agent", 50.0))
    last = await store.read(lambda tx: tx.last_seq())
    restore = await store.write(lambda tx: tx.begin_restore("b", 9.0, [HistoryMark(7, "x", last + 400_000)]))
    assert (restore.number, restore.cause, restore.after_event) == (8, Cause.RESTORE, last)
    assert restore.old_jobs == bound + MIN_SKIPPED_IDS == await store.read(lambda tx: tx.old_jobs())
    assert await store.read(lambda tx: tx.lapsed(1e9, 10)) == []  # what was leased waits for its cluster's report

    def afterwards(tx: Tx) -> tuple[int, int, int]:
        [new] = tx.add_jobs([a_draft()])
        job = tx.job(queued)
        assert job is not None
        old_attempt = tx.add_attempt(job, "perl", "token", 10.0).n
        fresh = tx.job(new)
        assert fresh is not None
        return new, old_attempt, tx.add_attempt(fresh, "perl", "token", 10.0).n

    new, old_attempt, new_attempt = await store.write(afterwards)
    assert new == restore.old_jobs + 1
    assert (old_attempt, new_attempt) == (7 * SKIPPED_ATTEMPTS + 1, 1)
    assert await store.read(lambda tx: tx.last_seq()) > last + MIN_SKIPPED_IDS
    [row] = await store.read(lambda tx: tx.restore_reports())
    assert (row.cluster, row.generation, row.state) == ("perl", 8, ReportState.AWAITED)
    await store.write(lambda tx: tx.resume_leases(row.cluster_id, 60.0))
    assert [one.job for one in await store.read(lambda tx: tx.lapsed(61.0, 10))] == [leased[0][0].job]


@dataclass(frozen=True)
class Given:
    """The newest numbers that a history has given out."""

    job: int
    attempt: int  # of the oldest job
    event: int
    mark: HistoryMark


async def gives(store: Store, id: str, jobs: int) -> Given:
    """Begin a generation, submit some jobs, and try the oldest one again."""

    def work(tx: Tx) -> Given:
        generation = tx.begin_generation(id, 1.0)
        newest = tx.add_jobs([a_draft() for _ in range(jobs)])[-1]
        oldest = tx.job(1)
        assert oldest is not None
        attempt = tx.add_attempt(oldest, "perl", f"token of {id}", 1.0)
        tx.update_attempt(attempt, AttemptState.WITHDRAWN, 1.0)
        mark = HistoryMark(generation.number, id, tx.last_seq())
        return Given(newest, attempt.n, tx.last_seq(), mark)

    return await store.write(work)


@given(
    since=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=4),
    unseen=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_no_number_is_reused_after_several_restores_of_one_copy(
    since: list[tuple[int, int]], unseen: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each restore of one copy begins a history of some starts and jobs, all of which is lost by the next."""
    asyncio.run(_put_back_often(tmp_path_factory.mktemp("copies"), since, unseen))


async def _put_back_often(folder: Path, since: list[tuple[int, int]], unseen: int) -> None:
    copy = folder / "copy.db"
    store = await open_store(f"sqlite:///{copy}")
    await a_cluster(store)
    newest = await gives(store, "copied", 3)
    await store.close()
    mark = newest.mark
    for number, (starts, jobs) in enumerate(since):
        shutil.copy(copy, folder / f"{number}.db")
        store = await open_store(f"sqlite:///{folder / f'{number}.db'}")
        await store.write(lambda tx, seen=mark, id=f"restore {number}": tx.begin_restore(id, 2.0, [seen]))  # type: ignore[misc]
        for start in range(starts):
            after = await gives(store, f"{number}.{start}", jobs)
            assert after.job > newest.job
            assert after.attempt > newest.attempt
            assert after.event > newest.event
            newest = after
        mark = replace(newest.mark, event=newest.event - unseen)  # whoever saw it last may have missed the end
        await store.close()


async def test_decided_jobs_skip_the_numbers_of_lost_attempts(store: Store) -> None:
    await a_cluster(store)
    [id] = await store.write(lambda tx: tx.add_jobs([a_draft()]))
    await store.write(lambda tx: tx.begin_restore("b", 9.0))

    def settle(tx: Tx) -> None:
        job = tx.job(id)
        assert job is not None
        tx.apply_decisions(
            [DecidedJob(job=job, decision=StoredDecision("{}", "{}"), reason="", cluster="perl", token="t")], 10.0
        )

    await store.write(settle)
    job = await store.read(lambda tx: tx.job(id))
    assert job is not None
    assert job.attempt == SKIPPED_ATTEMPTS + 1
    assert await store.read(lambda tx: tx.attempt(id, SKIPPED_ATTEMPTS + 1)) is not None
    assert [event.attempt for event in await store.read(lambda tx: tx.events(0, 10, job=id))][-1] == job.attempt


async def test_an_attempt_of_the_lost_history_is_adopted_under_its_number(store: Store) -> None:
    await a_cluster(store)
    [id] = await store.write(lambda tx: tx.add_jobs([a_draft()]))
    await store.write(lambda tx: tx.begin_restore("b", 9.0))

    def adopt(tx: Tx) -> None:
        job = tx.job(id)
        assert job is not None
        attempt = tx.add_attempt(job, "perl", "lost", 10.0, n=3)
        tx.update_attempt(attempt, AttemptState.ACCEPTED, 10.0)
        tx.update_job(job, JobEvent.BOUND, 10.0, cluster="perl", attempt=3)

    await store.write(adopt)
    attempt = await store.read(lambda tx: tx.attempt(id, 3))
    assert attempt is not None
    assert (attempt.token, attempt.state) == ("lost", AttemptState.ACCEPTED)


async def test_pending_restore_reports_are_stored(store: Store) -> None:
    await a_cluster(store, "perl", "birch")
    await store.write(lambda tx: tx.begin_restore("b", 9.0))
    birch, perl = await store.read(lambda tx: tx.restore_reports())
    await store.write(lambda tx: tx.update_restore_report(perl.cluster_id, ReportState.UNCLEAR, "its journal is new"))
    await store.write(lambda tx: tx.update_restore_report(birch.cluster_id, ReportState.REPORTED))
    known = {one.cluster: (one.state, one.why) for one in await store.read(lambda tx: tx.restore_reports())}
    assert known == {"perl": (ReportState.UNCLEAR, "its journal is new"), "birch": (ReportState.REPORTED, "")}
    again = await store.write(lambda tx: tx.begin_restore("c", 10.0))
    both = await store.read(lambda tx: tx.restore_reports())
    assert {(one.cluster, one.state, one.generation) for one in both} == {
        ("birch", ReportState.AWAITED, again.number),
        ("perl", ReportState.AWAITED, again.number),
    }
    await store.write(lambda tx: tx.remove_cluster(perl.cluster_id, 11.0))
    assert [one.cluster for one in await store.read(lambda tx: tx.restore_reports())] == ["birch"]


async def test_findings_are_listed_in_order_and_counted(store: Store) -> None:
    def add(tx: Tx) -> None:
        for job, kind in enumerate(("adopted", "ended", "adopted"), 1):
            tx.add_finding(RestoreFinding(generation=2, at=1.0, kind=kind, job=job, n=1, cluster="perl", detail="so"))

    await store.write(add)
    found = await store.read(lambda tx: tx.findings(2, 1, 10))
    assert [(seq, one.kind, one.job) for seq, one in found] == [(2, "ended", 2), (3, "adopted", 3)]
    assert await store.read(lambda tx: tx.count_findings(2)) == {"adopted": 2, "ended": 1}
    assert await store.read(lambda tx: tx.findings(1, 0, 10)) == []


async def test_the_mark_of_a_server_follows_a_restore_that_begins_while_it_serves(url: str, tmp_path: Path) -> None:
    """Else the next start would find more events in the old generation than it had, and be refused."""
    store, claim = await open_claimed(url)
    await a_cluster(store)
    started = await store.write(lambda tx: tx.begin_generation("start", 1.0))
    claim.mark_file = MarkFile(tmp_path)
    claim.mark_file.begin(started, 1)

    def fails(tx: Tx) -> None:
        tx.begin_restore("undone", 2.0)
        raise Conflict("no")

    with pytest.raises(Conflict):
        await store.write(fails)
    await store.write(lambda tx: tx.add_jobs([a_draft()]))
    assert read_mark(tmp_path) == HistoryMark(1, "start", await store.read(lambda tx: tx.last_seq()))
    restore = await store.write(lambda tx: tx.begin_restore("restore", 3.0))
    for _ in range(2):
        assert read_mark(tmp_path) == HistoryMark(restore.number, "restore", await store.read(lambda tx: tx.last_seq()))
        await store.write(lambda tx: tx.add_jobs([a_draft()]))
    mark = read_mark(tmp_path)
    assert mark is not None
    assert not await store.read(lambda tx: tx.has_lost(mark))
    await store.close()
