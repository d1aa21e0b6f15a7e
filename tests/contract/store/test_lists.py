"""Lists and counts agree with a plain filter over all jobs, page by page."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store import Store, Tx
from rainbow_sched.store.base import DecidedJob, JobSelection, NewJob
from tests.contract.store.builders import a_bound_draft, a_cluster, a_draft

OWNERS, NAMES, CLUSTERS = ("ana", "bob", "eve"), ("a", "b"), ("east", "west")
LABELS = st.dictionaries(st.sampled_from(["team", "run"]), st.sampled_from(["x", "y"]), max_size=2)


async def test_a_list_by_label_and_state_follows_jobs_as_they_move(store: Store) -> None:
    await a_cluster(store, "east")
    labelled = Terms(labels={"team": "x"})
    await store.write(lambda tx: tx.add_jobs([a_draft(terms=labelled) for _ in range(3)]))

    async def listed(state: JobState) -> list[int]:
        which = JobSelection(labels={"team": "x"}, states=frozenset({state}))
        return [job.id for job in await store.read(lambda tx: tx.list_jobs(which, limit=9))]

    one, two, _ = [await store.read(lambda tx, id=id: tx.job(id)) for id in (1, 2, 3)]
    await store.write(lambda tx: tx.update_job(one, JobEvent.CANCELLED, 2.0))
    given = DecidedJob(job=two, decision=StoredDecision("{}", "{}"), cluster="east", token="fence", reason="")
    await store.write(lambda tx: tx.apply_decisions([given], 2.0))
    assert [await listed(s) for s in (JobState.QUEUED, JobState.BOUND, JobState.CANCELLED)] == [[3], [2], [1]]


class Undo(Exception):
    """Raised at the end of a work so that nothing of it remains."""


@st.composite
def drafts(draw: st.DrawFn) -> NewJob:
    said = {
        "owner": draw(st.sampled_from(OWNERS)),
        "name": draw(st.sampled_from(NAMES)),
        "terms": Terms(labels=draw(LABELS)),
        "submitted_at": draw(st.sampled_from([100.0, 101.0, 102.0])),
    }
    state = draw(st.sampled_from([JobState.QUEUED, JobState.HELD, JobState.BOUND, JobState.INFEASIBLE]))
    if state is JobState.BOUND:
        return a_bound_draft(draw(st.sampled_from(CLUSTERS)), **said)
    return a_draft(state=state, hold=Hold.USER if state is JobState.HELD else None, **said)


filters = st.builds(
    JobSelection,
    states=st.frozensets(st.sampled_from([JobState.QUEUED, JobState.HELD, JobState.BOUND]), max_size=2),
    owners=st.frozensets(st.sampled_from(OWNERS), max_size=2),
    cluster=st.sampled_from(["", *CLUSTERS]),
    name=st.sampled_from(["", *NAMES]),
    labels=LABELS,
    ids=st.none() | st.frozensets(st.integers(1, 12), max_size=6),
    since=st.none() | st.sampled_from([100.0, 100.5, 102.0, 103.0]),
)


def meant(which: JobSelection, job: Job) -> bool:
    """The slow, obvious filter."""
    return (
        (not which.states or job.state in which.states)
        and (not which.owners or job.owner in which.owners)
        and which.cluster in ("", job.cluster)
        and which.name in ("", job.name)
        and all(job.terms.labels.get(key) == value for key, value in which.labels.items())
        and (which.ids is None or job.id in which.ids)
        and (which.since is None or job.submitted_at >= which.since)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drafts=st.lists(drafts(), max_size=12), which=st.lists(filters, min_size=1, max_size=4), limit=st.integers(1, 5))
async def test_pages_and_counts_agree_with_a_plain_filter(
    store: Store, drafts: list[NewJob], which: list[JobSelection], limit: int
) -> None:
    def work(tx: Tx) -> None:
        for name in CLUSTERS:
            tx.add_cluster(name, 1.0)
        ids = tx.add_jobs(drafts)
        jobs = [job for job in map(tx.job, ids) if job is not None]
        for one in which:
            wanted = [job for job in reversed(jobs) if meant(one, job)]
            assert in_pages(tx, one, limit) == wanted
            assert tx.count_jobs(one) == Counter(job.state for job in wanted)
        raise Undo

    with pytest.raises(Undo):
        await store.write(work)


def in_pages(tx: Tx, which: JobSelection, limit: int) -> list[Job]:
    found: list[Job] = []
    page = tx.list_jobs(which, limit=limit)
    while page:
        assert len(page) <= limit
        assert not found or page[0].id < found[-1].id
        found += page
        page = tx.list_jobs(which, after=page[-1].id, limit=limit)
    return found


@pytest.mark.parametrize(
    ("which", "index"),
    [
        (JobSelection(states=frozenset({JobState.QUEUED})), "jobs_state"),
        (JobSelection(owners=frozenset({"ana"})), "jobs_owner"),
        (JobSelection(cluster="east"), "jobs_cluster"),
        (JobSelection(name="a", states=frozenset({JobState.HELD})), "jobs_name"),
        (JobSelection(name="a", cluster="east"), "jobs_name"),
    ],
)
async def test_each_list_is_one_range_of_an_index_and_never_sorted(
    sqlite_url: str, which: JobSelection, index: str
) -> None:
    from rainbow_sched.store import open_store

    store = await open_store(sqlite_url)
    await a_cluster(store, "east")

    def plans(tx: Tx) -> list[str]:
        asked: list[str] = []
        ids = tx._ids  # type: ignore[attr-defined]

        def explained(head: str, where: object, tail: str, **values: object) -> set[int]:
            text = f"EXPLAIN QUERY PLAN {tx.db.text(head)} {tx._and(where)} {tx.db.text(tail)}"  # type: ignore[attr-defined]
            asked.extend(row[3] for row in tx.db.rows_of(text, {**where.values, **values}))  # type: ignore[attr-defined]
            return ids(head, where, tail, **values)

        tx._ids = explained  # type: ignore[attr-defined]
        tx.list_jobs(which, after=99, limit=5)
        return asked

    steps = await store.read(plans)
    await store.close()
    assert steps
    assert all(index in step and "SEARCH" in step for step in steps)
    assert not any("TEMP B-TREE" in step for step in steps)
