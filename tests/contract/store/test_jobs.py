"""A job keeps every byte it was submitted with, moves only along its table, and its events tell the same story."""

from __future__ import annotations

import json

import pytest

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound
from rainbow_sched.model.job import Delivery, Hold, Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState, next_state
from rainbow_sched.store import Store, Tx
from rainbow_sched.store.base import Dependency, JobSelection, NewJob
from tests.contract.store.builders import SPEC, a_bound_draft, a_cluster, a_draft, a_job

TERMS = Terms(
    priority=7,
    delivery=Delivery.AT_LEAST_ONCE,
    retries=3,
    start_after=5.0,
    deadline=9.5,
    fail_fast=True,
    policy="cost",
    policy_options={"seed": "1"},
    only_clusters=("perl", "frontier"),
    not_clusters=("old",),
    max_cost=1.25,
    prefer="cost",
    labels={"team": "bio", "é": "\u202e"},
)


async def test_a_job_comes_back_as_it_was_submitted(store: Store) -> None:
    draft = a_draft(
        source="# \"quotes\" 'and' -- \r\n\U0001f600 \u202e \0",
        terms=TERMS,
        state=JobState.HELD,
        hold=Hold.TIME,
        reason="waits for 5",
        client_token="key",
        submitted_at=1.5,
        evaluations=2,
        evaluated_at=1.25,
    )
    assert await a_job(store, draft) == Job(
        id=1,
        owner="user:ana",
        name="sleep",
        state=JobState.HELD,
        spec=SPEC,
        source=draft.source,
        terms=TERMS,
        hold=Hold.TIME,
        reason="waits for 5",
        client_token="key",
        submitted_at=1.5,
        evaluations=2,
        evaluated_at=1.25,
    )


async def test_ids_begin_at_one_and_follow_each_other(store: Store) -> None:
    assert await store.write(lambda tx: tx.add_jobs([a_draft(), a_draft()])) == [1, 2]
    assert await store.write(lambda tx: tx.add_jobs([])) == []
    assert await store.write(lambda tx: tx.add_jobs([a_draft()])) == [3]


async def test_a_bound_job_arrives_with_its_attempt_its_decision_and_its_events(store: Store) -> None:
    await a_cluster(store)
    why = StoredDecision('{"winner":"perl"}', '{"fleet":[]}')
    job = await a_job(store, a_bound_draft("perl", decision=why))
    assert (job.state, job.cluster, job.attempt) == (JobState.BOUND, "perl", 1)
    (attempt,) = await store.read(lambda tx: tx.attempts(1))
    assert (attempt.n, attempt.cluster, attempt.token, attempt.created_at) == (1, "perl", "fence", 1.0)
    assert await store.read(lambda tx: tx.decisions(1)) == [(1, 1.0, why)]
    events = await store.read(lambda tx: tx.events(0, 10))
    assert [(e.seq, e.kind, e.state, e.attempt) for e in events] == [
        (1, JobEvent.SUBMITTED, JobState.QUEUED, 0),
        (2, JobEvent.BOUND, JobState.BOUND, 1),
    ]


@pytest.mark.parametrize(
    "draft",
    [
        a_draft(state=JobState.SUCCEEDED),
        a_draft(state=JobState.BOUND),
        a_draft(state=JobState.HELD),
        a_draft(hold=Hold.USER),
        a_draft(name="a\0b"),
        a_draft(terms=Terms(labels={"a": "\0"})),
        a_draft(owner="\ud800"),
    ],
)
async def test_a_draft_that_makes_no_sense_is_refused_and_leaves_nothing(store: Store, draft: NewJob) -> None:
    with pytest.raises(Invalid):
        await store.write(lambda tx: tx.add_jobs([a_draft(), draft]))
    assert await store.read(lambda tx: (tx.count_jobs(JobSelection()), tx.last_seq())) == ({}, 0)


async def test_a_job_cannot_be_bound_to_a_cluster_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await a_job(store, a_bound_draft("nowhere"))


async def test_a_client_token_names_one_job_of_one_owner(store: Store) -> None:
    await store.write(lambda tx: tx.add_jobs([a_draft(client_token="k"), a_draft(client_token="l"), a_draft()]))
    await a_job(store, a_draft(owner="user:bob", client_token="k"))
    found = await store.read(lambda tx: tx.jobs_by_tokens("user:ana", ["k", "l", "m", ""]))
    assert {token: job.id for token, job in found.items()} == {"k": 1, "l": 2}
    bobs = await store.read(lambda tx: tx.jobs_by_tokens("user:bob", ["k"]).get("k"))
    assert bobs is not None
    assert bobs.id == 4
    with pytest.raises(Conflict):
        await a_job(store, a_draft(client_token="k"))
    with pytest.raises(AlreadyExists):
        await store.write(lambda tx: tx.add_jobs([a_draft(client_token="n"), a_draft(client_token="n")]))


async def test_a_job_moves_along_its_table_with_an_event_for_each_step(store: Store) -> None:
    job = await a_job(store)

    def life(tx: Tx) -> Job:
        held = tx.update_job(job, JobEvent.HELD, 2.0, hold=Hold.NOTHING_FITS, reason="none fits", evaluations=1)
        queued = tx.update_job(held, JobEvent.RELEASED, 3.0, detail={"by": "user:ana"})
        assert queued.hold is None
        bound = tx.update_job(queued, JobEvent.BOUND, 4.0, cluster="perl", attempt=1)
        told = tx.update_job(bound, JobEvent.UPDATED, 5.0, started_at=5.0)
        return tx.update_job(told, JobEvent.FAILED, 6.0, exit_code=-9, failures=1)

    ended = await store.write(life)
    assert (ended.state, ended.ended_at, ended.exit_code, ended.version) == (JobState.FAILED, 6.0, -9, 5)
    assert await store.read(lambda tx: tx.job(1)) == ended
    events = await store.read(lambda tx: tx.events(0, 100, job=1))
    assert events[2].detail == {"by": "user:ana"}
    state = JobState.QUEUED
    for event in events[1:]:
        state = next_state(state, event.kind)
        assert state is event.state
    assert state is ended.state


async def test_an_update_of_a_stale_job_is_a_conflict(store: Store) -> None:
    job = await a_job(store)
    await store.write(lambda tx: tx.update_job(job, JobEvent.UPDATED, 2.0, reason="first"))
    with pytest.raises(Conflict, match="has changed since"):
        await store.write(lambda tx: tx.update_job(job, JobEvent.CANCELLED, 3.0))
    now = await store.read(lambda tx: (tx.job(1), tx.last_seq()))
    assert now[0] is not None
    assert (now[0].reason, now[0].state, now[1]) == ("first", JobState.QUEUED, 2)


async def test_an_arrow_that_is_not_in_the_table_is_refused(store: Store) -> None:
    job = await a_job(store)
    with pytest.raises(Conflict, match="queued cannot be handed_off"):
        await store.write(lambda tx: tx.update_job(job, JobEvent.HANDED_OFF, 2.0))
    with pytest.raises(TypeError, match="owner"):
        await store.write(lambda tx: tx.update_job(job, JobEvent.UPDATED, 2.0, owner="user:eve"))


async def test_changed_terms_are_found_under_the_new_ones(store: Store) -> None:
    await a_cluster(store)
    low = await a_job(store, a_bound_draft(terms=Terms(labels={"team": "old"})))
    await a_job(store, a_bound_draft(terms=Terms(priority=1)))
    await store.write(
        lambda tx: tx.update_job(low, JobEvent.UPDATED, 2.0, terms=Terms(priority=2, labels={"team": "new"}), name="x")
    )
    leased = await store.write(lambda tx: tx.lease("perl", 1, "agent", 9.0))
    assert [job.id for _, job in leased] == [1]
    for team, ids in (("old", []), ("new", [1])):
        jobs = await store.read(lambda tx, team=team: tx.list_jobs(JobSelection(labels={"team": team}), limit=9))
        assert [job.id for job in jobs] == ids
    assert len(await store.read(lambda tx: tx.list_jobs(JobSelection(name="x"), limit=9))) == 1


async def test_waiting_and_queued_jobs_come_oldest_first_in_pages(store: Store) -> None:
    held = [a_draft(state=JobState.HELD, hold=Hold.NOTHING_FITS) for _ in range(3)]
    user = a_draft(state=JobState.HELD, hold=Hold.USER)
    await store.write(lambda tx: tx.add_jobs([held[0], user, a_draft(), held[1], a_draft(), held[2]]))
    waiting = await store.read(lambda tx: tx.waiting(Hold.NOTHING_FITS, 2))
    assert [one.job for one in waiting] == [1, 4]
    assert [one.job for one in await store.read(lambda tx: tx.waiting(Hold.NOTHING_FITS, 2, 4))] == [6]
    assert await store.read(lambda tx: tx.queued_ids(9)) == [3, 5]
    assert await store.read(lambda tx: tx.queued_ids(9, 3)) == [5]


async def test_waiting_jobs_that_differ_in_labels_and_priority_only_share_their_terms(store: Store) -> None:
    many = [Terms(policy="first", priority=n, labels={"index": str(n)}) for n in range(3)]
    drafts = [a_draft(state=JobState.HELD, hold=Hold.NOTHING_FITS, terms=terms) for terms in many]
    await store.write(lambda tx: tx.add_jobs(drafts))
    waiting = await store.read(lambda tx: tx.waiting(Hold.NOTHING_FITS, 9))
    assert [one.priority for one in waiting] == [0, 1, 2]
    assert {id(one.terms) for one in waiting} == {id(waiting[0].terms)}
    assert waiting[0].terms == Terms(policy="first")
    assert waiting[0].spec == drafts[0].spec


async def test_due_are_the_jobs_whose_time_has_come_or_gone(store: Store) -> None:
    await a_cluster(store)
    late, soon = Terms(deadline=10.0), Terms(start_after=10.0)
    await store.write(
        lambda tx: tx.add_jobs(
            [
                a_draft(terms=soon, state=JobState.HELD, hold=Hold.TIME),
                a_draft(terms=soon, state=JobState.HELD, hold=Hold.USER),
                a_draft(terms=late),
                a_draft(terms=late, state=JobState.INFEASIBLE),
                a_bound_draft(terms=late),
                a_draft(terms=Terms(deadline=10.1)),
            ]
        )
    )
    assert await store.read(lambda tx: tx.due_jobs(9.9, 10)) == []
    assert [job.id for job in await store.read(lambda tx: tx.due_jobs(10.0, 10))] == [1, 3, 5]
    assert len(await store.read(lambda tx: tx.due_jobs(10.0, 2))) == 2
    bound = await store.read(lambda tx: tx.job(5))
    assert bound is not None
    await store.write(lambda tx: tx.update_job(bound, JobEvent.CANCEL_ASKED, 10.0))
    assert [job.id for job in await store.read(lambda tx: tx.due_jobs(10.0, 10))] == [1, 3]


async def test_jobs_with_unsettled_dependents_are_stored_once_and_taken_once(store: Store) -> None:
    await store.write(lambda tx: tx.add_unsettled([(7, 0), (3, 12)]))
    await store.write(lambda tx: tx.add_unsettled({(7, 0), (7, 40)}))
    assert await store.write(lambda tx: tx.take_unsettled()) == [(3, 12), (7, 0), (7, 40)]
    assert await store.write(lambda tx: tx.take_unsettled()) == []


async def test_dependencies_are_known_from_both_ends(store: Store) -> None:
    await a_job(store)
    waits = (Dependency("afterok", 1), Dependency("afterany", 1), Dependency("afterok", 1))
    await a_job(store, a_draft(state=JobState.HELD, hold=Hold.DEPENDENCY, waits_for=waits))
    assert await store.read(lambda tx: tx.dependencies(2)) == [Dependency("afterany", 1), Dependency("afterok", 1)]
    assert await store.read(lambda tx: tx.waiters(1, 0, 9)) == [2]
    with pytest.raises(Conflict):
        await a_job(store, a_draft(waits_for=(Dependency("after", 99),)))


async def test_equal_requests_are_kept_once(store: Store) -> None:
    await store.write(lambda tx: tx.add_jobs([a_draft() for _ in range(50)]))
    await store.write(lambda tx: tx.add_jobs([a_draft(), a_draft(spec="{}")]))
    assert await store.read(lambda tx: tx.db.rows_of("SELECT count(*) FROM texts", {})) == [(2,)]


async def test_a_flipped_bit_in_a_request_is_noticed_and_refused(store: Store) -> None:
    await a_job(store)
    await store.write(lambda tx: tx.db.run("UPDATE texts SET body = " + _flipped(tx)))
    with pytest.raises(Corrupt, match="job 1"):
        await store.read(lambda tx: tx.job(1))
    (listed,) = await store.read(lambda tx: tx.list_jobs(JobSelection(), limit=5))
    assert listed.spec != SPEC


async def test_a_flipped_reference_to_a_request_is_noticed_and_refused(store: Store) -> None:
    await store.write(lambda tx: tx.add_jobs([a_draft(), a_draft(spec=json.dumps({"other": 1}))]))
    await store.write(lambda tx: tx.db.run("UPDATE jobs SET spec = 3 - spec WHERE id = 1"))
    with pytest.raises(Corrupt, match="job 1"):
        await store.read(lambda tx: tx.job(1))


def _flipped(tx: Tx) -> str:
    """The request with one bit of its first byte flipped."""
    if tx.db.dialect.name == "sqlite":  # type: ignore[attr-defined]
        return "CAST('z' || substr(CAST(body AS TEXT), 2) AS BLOB)"
    return "set_bit(body, 0, 1 - get_bit(body, 0))"
