"""Convert between database rows and model objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.credential import Credential, CredentialKind
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.job import Delivery, Event, Hold, Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store.session import Row
from rainbow_sched.store.tables.table import check_number, decoded, intact

_DEFAULTS = Terms()
_TERM_NAMES = tuple(f.name for f in fields(Terms))


def terms_text(terms: Terms) -> str:
    """Encode Terms as JSON without default values. Retries without `reruns` come from a server from before reruns."""
    if terms == _DEFAULTS:
        return "{}"
    values = {name: getattr(terms, name) for name in _TERM_NAMES}
    given = {k: v for k, v in values.items() if v != getattr(_DEFAULTS, k)}
    if given.pop("before_reruns", False):
        given.pop("reruns", None)
    elif terms.retries:
        given["reruns"] = terms.reruns
    return json.dumps(given, separators=(",", ":"))


@lru_cache(maxsize=8192)
def terms_of(text: str) -> Terms:
    """Decode the Terms that `terms_text` encoded."""
    given: dict[str, Any] = json.loads(text)
    if "delivery" in given:
        given["delivery"] = Delivery(given["delivery"])
    if "reruns" not in given and ("retries" in given or "delivery" in given):
        given["before_reruns"] = True
    for name in ("only_clusters", "not_clusters", "opened"):
        if name in given:
            given[name] = tuple(given[name])
    return Terms(**given)


class JobRow(NamedTuple):
    """The columns of the query `job_columns`."""

    id: int
    owner: str
    name: str
    state: str
    hold: str | None
    spec_digest: bytes | None  # None: the referenced text is missing
    spec_body: bytes | None
    spec_check: int
    source_body: bytes | None
    terms: str
    cluster: str
    attempt: int
    failures: int
    evaluations: int
    evaluated_at: float | None
    exit_code: int | None
    reason: str
    client_token: str | None
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    version: int
    reruns_used: int


class AttemptRow(NamedTuple):
    """The columns of the query `attempt_columns`."""

    job: int
    n: int
    cluster: str
    token: str
    state: str
    created_at: float
    lease_until: float | None
    accepted_at: float | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    failure: str | None
    reason: str
    native_id: str
    suspect: int
    holder: str
    guarded: int
    nodes: str
    code: str


class ClusterRow(NamedTuple):
    """The columns of the query `cluster_columns`."""

    id: int
    name: str
    standing: str
    manager: str
    registered_at: float
    seen_at: float | None
    state: str
    state_at: float | None
    marks: str
    used: str
    rules: str
    record: str
    drain_reason: str
    version: int
    node_rules: str | None
    wrong_nodes: int


class CredentialRow(NamedTuple):
    """The columns of the query `credential_columns`."""

    id: str
    kind: str
    digest: bytes
    owner: str
    scopes: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    used_at: float | None
    uses_left: int | None
    note: str
    ends_at: float | None
    replaces: str
    renewal_asked: int


def job_of(row: JobRow, *, check: bool) -> Job:
    """Convert a row to a job; with `check`, raise Corrupt if its stored request has changed since it was written."""
    if check and not spec_intact(row):
        raise Corrupt(f"the stored request of job {row.id} is damaged: its hash does not match; it is never run")
    return Job(
        id=row.id,
        owner=row.owner,
        name=row.name,
        state=JobState(row.state),
        hold=None if row.hold is None else Hold(row.hold),
        spec="" if row.spec_body is None else decoded(row.spec_body),
        source="" if row.source_body is None else decoded(row.source_body),
        terms=terms_of(row.terms),
        cluster=row.cluster,
        attempt=row.attempt,
        failures=row.failures,
        evaluations=row.evaluations,
        evaluated_at=row.evaluated_at,
        exit_code=row.exit_code,
        reason=row.reason,
        client_token=row.client_token or "",
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        version=row.version,
        reruns_used=row.reruns_used,
    )


def spec_intact(row: JobRow) -> bool:
    """Return True if the request in a job's row has the hash that was stored with it."""
    digest = row.spec_digest
    return digest is not None and intact(digest, row.spec_body) and check_number(bytes(digest)) == row.spec_check


def attempt_of(columns: Iterable[Any]) -> Attempt:
    """Convert the columns of an attempt."""
    row = AttemptRow._make(columns)
    return Attempt(
        job=row.job,
        n=row.n,
        cluster=row.cluster,
        token=row.token,
        state=AttemptState(row.state),
        created_at=float(row.created_at),  # SQLite's RETURNING gives whole numbers as int
        lease_until=None if row.lease_until is None else float(row.lease_until),
        accepted_at=row.accepted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        failure=None if row.failure is None else Failure(row.failure),
        reason=row.reason,
        native_id=row.native_id,
        suspect=bool(row.suspect),
        holder=row.holder,
        guarded=bool(row.guarded),
        nodes=row.nodes,
        code=row.code,
    )


def event_of(columns: Row) -> Event:
    """Convert the columns of an event."""
    seq, job, at, kind, state, attempt, detail = columns
    return Event(
        seq=seq,
        job=job,
        at=at,
        kind=JobEvent(kind),
        state=JobState(state),
        attempt=attempt,
        detail={} if detail == "{}" else json.loads(detail),
    )


def cluster_of(columns: Row) -> Cluster:
    """Convert the columns of a cluster."""
    row = ClusterRow._make(columns)
    return Cluster(
        id=row.id,
        name=row.name,
        standing=Standing(row.standing),
        manager=row.manager,
        registered_at=row.registered_at,
        seen_at=row.seen_at,
        state=json.loads(row.state),
        state_at=row.state_at,
        marks=json.loads(row.marks),
        used=json.loads(row.used),
        rules=json.loads(row.rules),
        record=json.loads(row.record),
        drain_reason=row.drain_reason,
        version=row.version,
        node_rules=None if row.node_rules is None else NodeRules.of(json.loads(row.node_rules)),
        wrong_nodes=row.wrong_nodes,
    )


def credential_of(columns: Row) -> Credential:
    """Convert the columns of a credential."""
    row = CredentialRow._make(columns)
    return Credential(
        id=row.id,
        kind=CredentialKind(row.kind),
        digest=bytes(row.digest),
        owner=row.owner,
        scopes=tuple(json.loads(row.scopes)),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        used_at=row.used_at,
        uses_left=row.uses_left,
        note=row.note,
        ends_at=row.ends_at,
        replaces=row.replaces,
        renewal_asked=bool(row.renewal_asked),
    )
