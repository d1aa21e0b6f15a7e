"""Whatever is done in whatever order, the store holds what a few plain dictionaries would hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rainbow_sched.model.attempt import LIVE, Attempt, AttemptState, is_allowed
from rainbow_sched.model.errors import Conflict, RainbowError
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import TRANSITIONS, JobEvent, JobState, next_state
from rainbow_sched.store import Store, Tx
from rainbow_sched.store.base import JobSelection
from tests.contract.store.builders import SPEC, a_bound_draft, a_draft
from tests.contract.store.test_lists import Undo

CLUSTERS = ("east", "west")
EVENTS = sorted({event for _, event in TRANSITIONS} | {JobEvent.UPDATED})


@dataclass
class Model:
    """The store as plain dictionaries."""

    jobs: dict[int, Job] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    events: list[tuple[int, JobEvent, JobState]] = field(default_factory=list)

    def live(self, cluster: str) -> list[Attempt]:
        return [a for _, a in sorted(self.attempts.items()) if a.cluster == cluster and a.state in LIVE]


class Player:
    """Does the same thing to the store and to the model, with choices drawn from a seed."""

    def __init__(self, tx: Tx, seed: int) -> None:
        self.tx, self.random, self.model, self.now = tx, Random(seed), Model(), 0.0

    def play(self, steps: int) -> None:
        moves = [*[self.submit] * 4, *[self.lease] * 2, self.move_job, self.move_attempt, self.retry, self.fail]
        for _ in range(steps):
            self.now += 1.0
            self.random.choice(moves)()

    def submit(self) -> None:
        cluster, priority = self.random.choice(CLUSTERS), self.random.randrange(3)
        terms = Terms(priority=priority)
        draft = self.random.choice(
            [
                a_draft(terms=terms, submitted_at=self.now),
                a_draft(terms=terms, state=JobState.HELD, hold=Hold.USER, submitted_at=self.now),
                a_bound_draft(cluster, terms=terms, submitted_at=self.now),
            ]
        )
        (id,) = self.tx.add_jobs([draft])
        bound = int(draft.state is JobState.BOUND)
        self.model.jobs[id] = Job(
            id=id,
            owner=draft.owner,
            name=draft.name,
            state=draft.state,
            spec=SPEC,
            terms=terms,
            hold=draft.hold,
            cluster=draft.cluster,
            attempt=bound,
            submitted_at=self.now,
        )
        self.model.events.append((id, JobEvent.SUBMITTED, JobState.QUEUED))
        if draft.state is not JobState.QUEUED:
            self.model.events.append((id, JobEvent(draft.state.value), draft.state))
        if bound:
            self.offered(id, 1, cluster)

    def offered(self, job: int, n: int, cluster: str) -> None:
        self.model.attempts[job, n] = Attempt(
            job=job, n=n, cluster=cluster, token="fence", state=AttemptState.OFFERED, created_at=self.now
        )

    def some_job(self) -> Job | None:
        return self.random.choice(list(self.model.jobs.values())) if self.model.jobs else None

    def move_job(self) -> None:
        job, event = self.some_job(), self.random.choice(EVENTS)
        if job is None:
            return
        try:
            state = next_state(job.state, event)
        except Conflict:
            with pytest.raises(Conflict):
                self.tx.update_job(job, event, self.now)
            return
        with pytest.raises(Conflict):
            self.tx.update_job(replace(job, version=job.version + 1), event, self.now)
        hold = {"hold": Hold.NOTHING_FITS} if event is JobEvent.HELD else {}
        assert self.tx.update_job(job, event, self.now, reason="moved", **hold) == (
            self.moved(job, event, state, Hold.NOTHING_FITS if hold else None)
        )

    def moved(self, job: Job, event: JobEvent, state: JobState, hold: Hold | None) -> Job:
        if state is JobState.HELD and hold is None:
            hold = job.hold
        ended = self.now if state.terminal else None
        new = replace(job, state=state, reason="moved", hold=hold, ended_at=ended, version=job.version + 1)
        self.model.jobs[job.id] = new
        self.model.events.append((job.id, event, state))
        return new

    def move_attempt(self) -> None:
        if not self.model.attempts:
            return
        key = self.random.choice(sorted(self.model.attempts))
        attempt, state = self.model.attempts[key], self.random.choice(list(AttemptState))
        if not is_allowed(attempt.state, state) and not (state is attempt.state and state.live):
            with pytest.raises(Conflict):
                self.tx.update_attempt(attempt, state, self.now)
            return
        told = self.tx.update_attempt(attempt, state, self.now, native_id="7")
        assert (told.state, told.native_id) == (state, "7")
        self.model.attempts[key] = told

    def lease(self) -> None:
        cluster, limit = self.random.choice(CLUSTERS), self.random.randrange(1, 4)
        until = self.now + self.random.randrange(1, 6)
        jobs = self.model.jobs
        free = [
            a
            for a in self.model.live(cluster)
            if jobs[a.job].state is JobState.BOUND
            and (
                a.state is AttemptState.OFFERED
                or (a.state is AttemptState.LEASED and a.lease_until is not None and a.lease_until <= self.now)
            )
        ]
        lapsed = [a for a in free if a.state is AttemptState.LEASED]
        first = sorted(lapsed, key=lambda a: (-jobs[a.job].terms.priority, a.job))[:limit]
        rest = sorted((a for a in free if a not in lapsed), key=lambda a: (-jobs[a.job].terms.priority, a.job))
        wanted = first + rest[: limit - len(first)]
        got = self.tx.lease(cluster, limit, "agent", until, now=self.now)
        assert sorted(a.tag for a, _ in got) == sorted(a.tag for a in wanted)
        for attempt in wanted:
            self.model.attempts[attempt.job, attempt.n] = replace(
                attempt, state=AttemptState.LEASED, lease_until=until, holder="agent"
            )
        assert all(self.model.attempts[a.job, a.n] == a and jobs[j.id] == j for a, j in got)

    def retry(self) -> None:
        job, cluster = self.some_job(), self.random.choice(CLUSTERS)
        if job is None or job.state is not JobState.QUEUED or (job.id, job.attempt + 1) in self.model.attempts:
            return
        attempt = self.tx.add_attempt(job, cluster, "fence", self.now)
        bound = self.tx.update_job(job, JobEvent.BOUND, self.now, attempt=attempt.n, cluster=cluster)
        self.model.jobs[job.id] = replace(
            job, state=JobState.BOUND, attempt=attempt.n, cluster=cluster, version=job.version + 1
        )
        assert bound == self.model.jobs[job.id]
        self.model.events.append((job.id, JobEvent.BOUND, JobState.BOUND))
        self.offered(job.id, attempt.n, cluster)

    def fail(self) -> None:
        with pytest.raises(RainbowError):
            self.tx.add_jobs([a_draft(), a_bound_draft("nowhere")])

    def agree(self) -> None:
        tx, model = self.tx, self.model
        assert tx.list_jobs(JobSelection(), limit=1000) == sorted(model.jobs.values(), key=lambda job: -job.id)
        assert {a.tag: a for id in model.jobs for a in tx.attempts(id)} == {a.tag: a for a in model.attempts.values()}
        for cluster in CLUSTERS:
            assert tx.live_attempts(cluster) == model.live(cluster)
            assert sum(tx.count_live(cluster).values()) == len(model.live(cluster))
            by_state = [a for state in tx.count_live(cluster) for a in tx.attempts_in(cluster, state)]
            assert sorted((a.job, a.n) for a in by_state) == sorted((a.job, a.n) for a in tx.live_attempts(cluster))
        events = tx.events(0, 1000)
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        assert [(e.job, e.kind, e.state) for e in events] == model.events
        assert sorted(a.tag for a in tx.lapsed(self.now, 1000)) == sorted(
            a.tag
            for a in model.attempts.values()
            if a.state is AttemptState.LEASED and a.lease_until is not None and a.lease_until <= self.now
        )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
async def test_any_sequence_of_verbs_agrees_with_plain_dictionaries(store: Store, seed: int, steps: int) -> None:
    def work(tx: Tx) -> None:
        for name in CLUSTERS:
            tx.add_cluster(name, 0.0)
        player = Player(tx, seed)
        player.play(steps)
        player.agree()
        raise Undo

    with pytest.raises(Undo):
        await store.write(work)
