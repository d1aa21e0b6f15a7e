"""Many new jobs in a few statements: the path that every submission takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from rainbow.model.errors import AlreadyExists, Invalid
from rainbow.model.job import JobEvent, JobState
from rainbow.store.records import Draft
from rainbow.store.session import Row, plain
from rainbow.store.tables.rows import terms_text
from rainbow.store.tables.table import Table

# A job starts QUEUED; this event brings it where its draft says it is.
_FIRST = {
    JobState.BOUND: (JobEvent.BOUND.value, JobState.BOUND.value, 1),
    JobState.HELD: (JobEvent.HELD.value, JobState.HELD.value, 0),
    JobState.INFEASIBLE: (JobEvent.INFEASIBLE.value, JobState.INFEASIBLE.value, 0),
}
_SUBMITTED, _QUEUED, _BOUND = JobEvent.SUBMITTED.value, JobState.QUEUED.value, JobState.BOUND
_STATES = {state: state.value for state in JobState}  # `value` of an enum is slow, and this is a hot path


class NewJobTable(Table):
    """See `base.JobVerbs.add_jobs`."""

    def add_jobs(self, drafts: Sequence[Draft]) -> list[int]:
        if not drafts:
            return []
        for draft in drafts:
            _check(draft)
        self._check_tokens(drafts)
        clusters = self.cluster_ids({d.cluster for d in drafts if d.state is _BOUND})
        texts = self.intern(_texts(drafts))
        first = self.db.take("job", len(drafts))
        numbered = list(enumerate(drafts, first))
        offers = [
            (id, 1, clusters[d.cluster], d.cluster, d.token, d.terms.priority, d.submitted_at)
            for id, d in numbered
            if d.state is _BOUND
        ]
        self.db.take("attempt", len(offers))
        seq = self.db.take("event", _event_count(drafts))
        with self.db.together():
            self.db.change_many("add_jobs", _job_rows(numbered, texts))
            self.db.change_many(
                "add_labels",
                [
                    (k, v, id, _STATES[d.state])
                    for id, d in numbered
                    if d.terms.labels
                    for k, v in d.terms.labels.items()
                ],
            )
            self.db.change_many(
                "add_dependencies",
                [(id, *pair) for id, d in numbered for pair in {(w.kind, w.job) for w in d.waits_for}],
            )
            self.db.change_many("add_attempts", offers)
            self.db.change_many(
                "add_decisions",
                [
                    (id, int(d.state is _BOUND), d.submitted_at, d.decision.own, texts[d.decision.fleet][0])
                    for id, d in numbered
                    if d.decision is not None
                ],
            )
            self.db.change_many("add_events", _event_rows(numbered, seq))
        return [id for id, _ in numbered]

    def _check_tokens(self, drafts: Sequence[Draft]) -> None:
        tokens = [(d.owner, d.client_token) for d in drafts if d.client_token]
        if len(set(tokens)) < len(tokens):
            raise AlreadyExists("one client token stands for two jobs of this batch; give each its own")


def _check(draft: Draft) -> None:
    if draft.state is not JobState.QUEUED and draft.state not in _FIRST:
        raise Invalid(f"a job cannot be submitted as {draft.state}")
    if draft.state is _BOUND and not (draft.cluster and draft.token):
        raise Invalid("a job that is bound needs a cluster and a token for its attempt")
    if (draft.state is JobState.HELD) != (draft.hold is not None):
        raise Invalid("a job is held for something, and only a held one")
    plain(f"{draft.owner}{draft.name}{draft.reason}{draft.client_token}{draft.token}")
    if draft.terms.labels:
        plain("".join(itertools.chain.from_iterable(draft.terms.labels.items())))


def _texts(drafts: Sequence[Draft]) -> Iterator[str]:
    for draft in drafts:
        yield draft.spec
        if draft.source:
            yield draft.source
        if draft.decision is not None:
            yield draft.decision.fleet


def _event_count(drafts: Sequence[Draft]) -> int:
    return len(drafts) + sum(d.state is not JobState.QUEUED for d in drafts)


def _event_rows(numbered: Sequence[tuple[int, Draft]], seq: int) -> list[Row]:
    rows: list[Row] = []
    for id, draft in numbered:
        rows.append((seq, id, draft.submitted_at, _SUBMITTED, _QUEUED, 0, "{}"))
        seq += 1
        if draft.state is not JobState.QUEUED:
            kind, state, attempt = _FIRST[draft.state]
            rows.append((seq, id, draft.submitted_at, kind, state, attempt, "{}"))
            seq += 1
    return rows


def _job_rows(numbered: Sequence[tuple[int, Draft]], texts: Mapping[str, tuple[int, int]]) -> list[Row]:
    # A batch mostly shares one Terms; it is found again by identity, since hashing one costs more than writing it.
    terms = {id(d.terms): d.terms for _, d in numbered}
    written = {key: (terms_text(t), t.start_after, t.deadline) for key, t in terms.items()}
    return [
        (
            number,
            d.owner,
            d.name,
            _STATES[d.state],
            None if d.hold is None else d.hold.value,
            *texts[d.spec],
            texts[d.source][0] if d.source else None,
            *written[id(d.terms)],
            d.cluster,
            int(d.state is _BOUND),
            d.evaluations,
            d.evaluated_at,
            d.reason,
            d.client_token or None,
            d.submitted_at,
            d.submitted_at if d.state is JobState.INFEASIBLE else None,
        )
        for number, d in numbered
    ]
