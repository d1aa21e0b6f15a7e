"""Store new jobs, and the decisions on queued jobs, in a few statements per batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.model.errors import AlreadyExists, Conflict, Invalid
from rainbow_sched.model.job import Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState, next_state
from rainbow_sched.store.records import DecidedJob, NewJob
from rainbow_sched.store.session import Row, Session, reject_nul
from rainbow_sched.store.tables.rows import terms_text
from rainbow_sched.store.tables.table import Table, to_json

# This is a hot path, and access to enum members and values is slow: look them up once.
_QUEUED, _BOUND, _HELD, _INFEASIBLE = JobState.QUEUED, JobState.BOUND, JobState.HELD, JobState.INFEASIBLE
_STATES = {state: state.value for state in (_QUEUED, _BOUND, _HELD, _INFEASIBLE)}
# A job starts QUEUED; this second event moves it to its initial state.
_SUBMITTED, _START = JobEvent.SUBMITTED.value, JobState.QUEUED.value
_FIRST = {
    JobState.BOUND.value: JobEvent.BOUND.value,
    JobState.HELD.value: JobEvent.HELD.value,
    JobState.INFEASIBLE.value: JobEvent.INFEASIBLE.value,
}


class JobBatchTable(Table):
    """`add_jobs`, `add_lost_job`, `apply_decisions` and `add_update_events` of `base.Tx`."""

    def add_jobs(self, new_jobs: Sequence[NewJob]) -> list[int]:
        if not new_jobs:
            return []
        _check(new_jobs)
        first = self.db.allocate("job", len(new_jobs))
        self._add(range(first, first + len(new_jobs)), new_jobs)
        return list(range(first, first + len(new_jobs)))

    def add_lost_job(self, id: int, new_job: NewJob) -> None:
        _check([new_job])
        self._add([id], [new_job])

    def _add(self, ids: Sequence[int], new_jobs: Sequence[NewJob]) -> None:
        clusters = self.cluster_ids({d.cluster for d in new_jobs if d.state is _BOUND})
        texts = self.intern(_texts(new_jobs))
        rows = _Rows(seq=self.db.counter("event"))
        for id, new_job in zip(ids, new_jobs, strict=True):
            rows.add(id, new_job, clusters, texts)
        rows.store(self.db)

    def apply_decisions(self, decided: Sequence[DecidedJob], at: float) -> None:
        if not decided:
            return
        transitions = [_transition(one) for one in decided]
        clusters = self.cluster_ids({one.cluster for one in decided if one.cluster})
        texts = self.intern(one.decision.fleet for one in decided)
        rows, jobs = _Rows(seq=self.db.counter("event")), list[Row]()
        for one, (event, state) in zip(decided, transitions, strict=True):
            job, hold = one.job, None if one.hold is None else one.hold.value
            n = self.next_attempt(job.id, job.attempt) if one.cluster else job.attempt
            jobs.append((state.value, hold, one.cluster, n, at, one.reason, job.id, job.version))
            if job.terms.labels:
                rows.moved_labels.append((state.value, job.id))
            if one.cluster:
                rows.offers.append((job.id, n, clusters[one.cluster], one.cluster, one.token, job.terms.priority, at))
            text = texts[one.decision.fleet][0]
            rows.decisions.append((job.id, n if one.cluster else 0, at, one.decision.own, text))
            rows.add_event(job.id, at, event.value, state.value, n)
        self._move("apply_decisions", jobs)
        rows.store(self.db)

    def add_update_events(self, jobs: Sequence[Job], at: float, detail: Mapping[str, object]) -> list[Job]:
        rows, text = _Rows(seq=self.db.counter("event")), to_json(dict(detail))
        for job in jobs:
            state = next_state(job.state, JobEvent.UPDATED)
            rows.add_event(job.id, at, JobEvent.UPDATED.value, state.value, job.attempt, text)
        self._move("touch_jobs", [(job.id, job.version) for job in jobs])
        rows.store(self.db)
        return [replace(job, version=job.version + 1) for job in jobs]

    def _move(self, query: str, rows: Sequence[Row]) -> None:
        """Change jobs that must be as they were read."""
        moved = self.db.change_many(query, rows)
        if moved != len(rows):
            raise Conflict(f"{len(rows) - moved} of {len(rows)} jobs have changed since they were read")


@dataclass(slots=True)
class _Rows:
    """The rows of a batch of jobs by statement; `seq` is the number of the last event."""

    seq: int
    jobs: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    moved_labels: list[Row] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    offers: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    _terms: Terms | None = None  # a batch mostly shares one
    _written: tuple[str, float | None, float | None] = ("", None, None)

    def add(self, id: int, d: NewJob, clusters: Mapping[str, int], texts: Mapping[str, tuple[int, int]]) -> None:
        """Add all rows of a job."""
        at, terms = d.submitted_at, d.terms
        state, bound = _STATES[d.state], 1 if d.state is _BOUND else 0
        self._add_job(id, d, state, bound, texts)
        if terms.labels:
            self.labels += [(key, value, id, state) for key, value in terms.labels.items()]
        if d.waits_for:
            self.waits += [(id, *pair) for pair in {(waited.kind, waited.job) for waited in d.waits_for}]
        if bound:
            self.offers.append((id, 1, clusters[d.cluster], d.cluster, d.token, terms.priority, at))
        if d.decision is not None:
            self.decisions.append((id, bound, at, d.decision.own, texts[d.decision.fleet][0]))
        self.add_event(id, at, _SUBMITTED, _START, 0)
        if state in _FIRST:
            self.add_event(id, at, _FIRST[state], state, bound)

    def add_event(self, id: int, at: float, event: str, state: str, attempt: int, detail: str = "{}") -> None:
        """Add the next event."""
        self.seq += 1
        self.events.append((self.seq, id, at, event, state, attempt, detail))

    def store(self, db: Session) -> None:
        """Store all rows."""
        db.allocate("attempt", len(self.offers))
        db.allocate("event", len(self.events))
        with db.pipeline():
            db.change_many("add_jobs", self.jobs)
            db.change_many("add_labels", self.labels)
            db.change_many("move_labels", self.moved_labels)
            db.change_many("add_dependencies", self.waits)
            db.change_many("add_attempts", self.offers)
            db.change_many("add_decisions", self.decisions)
            db.change_many("add_events", self.events)

    def _add_job(self, id: int, d: NewJob, state: str, bound: int, texts: Mapping[str, tuple[int, int]]) -> None:
        if d.terms is not self._terms:
            self._terms = d.terms
            self._written = (terms_text(d.terms), d.terms.start_after, d.terms.deadline)
        self.jobs.append(
            (
                id,
                d.owner,
                d.name,
                state,
                None if d.hold is None else d.hold.value,
                *texts[d.spec],
                texts[d.source][0] if d.source else None,
                *self._written,
                d.cluster,
                bound,
                d.evaluations,
                d.evaluated_at,
                d.reason,
                d.client_token or None,
                d.submitted_at,
                d.submitted_at if d.state is _INFEASIBLE else None,
            )
        )


def _check(new_jobs: Sequence[NewJob]) -> None:
    """Raise an error if one of the jobs cannot be stored."""
    texts: list[str] = []
    tokens: list[tuple[str, str]] = []
    for d in new_jobs:
        if d.state not in _STATES:
            raise Invalid(f"a job cannot be submitted as {d.state}")
        if d.state is _BOUND and not (d.cluster and d.token):
            raise Invalid("a job that is bound needs a cluster and a token for its attempt")
        if (d.state is _HELD) != (d.hold is not None):
            raise Invalid("a held job needs a hold, and another job must not have one")
        texts += (d.owner, d.name, d.reason, d.client_token, d.token)
        if d.client_token:
            tokens.append((d.owner, d.client_token))
        if d.terms.labels:
            texts += itertools.chain.from_iterable(d.terms.labels.items())
    if "\0" in "".join(texts):
        for text in texts:
            reject_nul(text)
    if len(set(tokens)) < len(tokens):
        raise AlreadyExists("two jobs of this batch have the same client token; give each its own")


def _texts(new_jobs: Sequence[NewJob]) -> Iterator[str]:
    for new_job in new_jobs:
        yield new_job.spec
        if new_job.source:
            yield new_job.source
        if new_job.decision is not None:
            yield new_job.decision.fleet


def _transition(one: DecidedJob) -> tuple[JobEvent, JobState]:
    """Return the event and the state after it; raise an error if the transition is illegal."""
    if bool(one.cluster) != bool(one.token) or bool(one.cluster) == (one.hold is not None):
        raise Invalid(f"job {one.job.id} needs either a cluster and a token, or a hold")
    event = JobEvent.BOUND if one.cluster else JobEvent.HELD
    return event, next_state(one.job.state, event)
