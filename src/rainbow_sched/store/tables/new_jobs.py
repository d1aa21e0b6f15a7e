"""Store new jobs in a few statements per batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rainbow_sched.model.errors import AlreadyExists, Invalid
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store.records import NewJob
from rainbow_sched.store.session import Row, reject_nul
from rainbow_sched.store.tables.rows import terms_text
from rainbow_sched.store.tables.table import Table

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


class NewJobTable(Table):
    """`add_jobs` and `add_lost_job` of `base.Tx`."""

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
        self.db.allocate("attempt", len(rows.offers))
        self.db.allocate("event", len(rows.events))
        with self.db.pipeline():
            self.db.change_many("add_jobs", rows.jobs)
            self.db.change_many("add_labels", rows.labels)
            self.db.change_many("add_dependencies", rows.waits)
            self.db.change_many("add_attempts", rows.offers)
            self.db.change_many("add_decisions", rows.decisions)
            self.db.change_many("add_events", rows.events)


@dataclass(slots=True)
class _Rows:
    """The rows of new jobs by table; `seq` is the number of the last event."""

    seq: int
    jobs: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
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
        self.events.append((self.seq + 1, id, at, _SUBMITTED, _START, 0, "{}"))
        self.seq += 1
        if state in _FIRST:
            self.events.append((self.seq + 1, id, at, _FIRST[state], state, bound, "{}"))
            self.seq += 1

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
