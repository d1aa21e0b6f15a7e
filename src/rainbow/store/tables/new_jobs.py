"""Many new jobs in a few statements: the path that every submission takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rainbow.model.errors import AlreadyExists, Invalid
from rainbow.model.job import JobEvent, JobState, Terms
from rainbow.store.records import Draft
from rainbow.store.session import Row, plain
from rainbow.store.tables.rows import terms_text
from rainbow.store.tables.table import Table

# A job starts QUEUED; this event brings it where its draft says it is.
_FIRST = {JobState.BOUND: JobEvent.BOUND, JobState.HELD: JobEvent.HELD, JobState.INFEASIBLE: JobEvent.INFEASIBLE}
_SUBMITTED, _QUEUED, _BOUND = JobEvent.SUBMITTED.value, JobState.QUEUED.value, JobState.BOUND


class NewJobTable(Table):
    """See `base.JobVerbs.add_jobs`."""

    def add_jobs(self, drafts: Sequence[Draft]) -> list[int]:
        if not drafts:
            return []
        for draft in drafts:
            _check(draft)
        self._check_tokens(drafts)
        ids = self.cluster_ids(d.cluster for d in drafts if d.state is _BOUND)
        texts = self.intern(_texts(drafts))
        first = self.db.take("job", len(drafts))
        self.db.change_many("add_jobs", _job_rows(drafts, first, texts))
        self.db.change_many(
            "add_labels",
            [(key, value, id) for id, d in enumerate(drafts, first) for key, value in d.terms.labels.items()],
        )
        self.db.change_many(
            "add_dependencies",
            [
                (id, kind, job)
                for id, d in enumerate(drafts, first)
                for kind, job in sorted({(w.kind, w.job) for w in d.waits_for})
            ],
        )
        offers = [
            (id, 1, ids[d.cluster], d.cluster, d.token, d.terms.priority, d.submitted_at)
            for id, d in enumerate(drafts, first)
            if d.state is _BOUND
        ]
        if offers:
            self.db.take("attempt", len(offers))
        self.db.change_many("add_attempts", offers)
        self.db.change_many(
            "add_decisions",
            [
                (id, int(d.state is _BOUND), d.submitted_at, texts[d.decision][0])
                for id, d in enumerate(drafts, first)
                if d.decision is not None
            ],
        )
        self._add_first_events(drafts, first)
        return list(range(first, first + len(drafts)))

    def _check_tokens(self, drafts: Sequence[Draft]) -> None:
        tokens = [(d.owner, d.client_token) for d in drafts if d.client_token]
        if len(set(tokens)) < len(tokens):
            raise AlreadyExists("one client token stands for two jobs of this batch; give each its own")

    def _add_first_events(self, drafts: Sequence[Draft], first: int) -> None:
        count = len(drafts) + sum(d.state is not JobState.QUEUED for d in drafts)
        seq = self.db.take("event", count)
        rows: list[Row] = []
        for id, draft in enumerate(drafts, first):
            rows.append((seq, id, draft.submitted_at, _SUBMITTED, _QUEUED, 0, "{}"))
            seq += 1
            if draft.state is not JobState.QUEUED:
                kind = _FIRST[draft.state].value
                attempt = int(draft.state is _BOUND)
                rows.append((seq, id, draft.submitted_at, kind, draft.state.value, attempt, "{}"))
                seq += 1
        self.db.change_many("add_events", rows)


def _check(draft: Draft) -> None:
    if draft.state is not JobState.QUEUED and draft.state not in _FIRST:
        raise Invalid(f"a job cannot be submitted as {draft.state}")
    if draft.state is _BOUND and not (draft.cluster and draft.token):
        raise Invalid("a job that is bound needs a cluster and a token for its attempt")
    if (draft.state is JobState.HELD) != (draft.hold is not None):
        raise Invalid("a job is held for something, and only a held one")
    plain(draft.owner), plain(draft.name), plain(draft.reason), plain(draft.client_token), plain(draft.token)
    for key, value in draft.terms.labels.items():
        plain(key), plain(value)


def _texts(drafts: Sequence[Draft]) -> Iterator[str]:
    for draft in drafts:
        yield draft.spec
        if draft.source:
            yield draft.source
        if draft.decision is not None:
            yield draft.decision


def _job_rows(drafts: Sequence[Draft], first: int, texts: Mapping[str, tuple[int, int]]) -> list[Row]:
    written: dict[int, str] = {}  # a batch mostly shares one Terms; by identity, since hashing one costs more

    def terms(t: Terms) -> str:
        if id(t) not in written:
            written[id(t)] = terms_text(t)
        return written[id(t)]

    return [
        (
            number,
            d.owner,
            d.name,
            d.state.value,
            None if d.hold is None else d.hold.value,
            *texts[d.spec],
            texts[d.source][0] if d.source else None,
            terms(d.terms),
            d.terms.start_after,
            d.terms.deadline,
            d.cluster,
            int(d.state is _BOUND),
            d.evaluations,
            d.evaluated_at,
            d.reason,
            d.client_token or None,
            d.submitted_at,
            d.submitted_at if d.state.terminal else None,
        )
        for number, d in enumerate(drafts, first)
    ]
