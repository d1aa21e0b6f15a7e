"""Convert between database rows and model objects."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import Any

from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.credential import Credential, CredentialKind
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.job import Delivery, Event, Hold, Job, JobEvent, JobState, Terms
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


def job_of(row: Row, *, check: bool) -> Job:
    """Convert a row to a job; with `check`, raise Corrupt if its stored request has changed since it was written."""
    if check and not spec_intact(row):
        raise Corrupt(f"the stored request of job {row[0]} is damaged: its hash does not match; it is never run")
    return Job(
        id=row[0],
        owner=row[1],
        name=row[2],
        state=JobState(row[3]),
        hold=None if row[4] is None else Hold(row[4]),
        spec="" if row[6] is None else decoded(row[6]),
        source="" if row[8] is None else decoded(row[8]),
        terms=terms_of(row[9]),
        cluster=row[10],
        attempt=row[11],
        failures=row[12],
        evaluations=row[13],
        evaluated_at=row[14],
        exit_code=row[15],
        reason=row[16],
        client_token=row[17] or "",
        submitted_at=row[18],
        started_at=row[19],
        ended_at=row[20],
        version=row[21],
        reruns_used=row[22],
    )


def spec_intact(row: Row) -> bool:
    """Return True if the request in a job's row has the hash that was stored with it."""
    return intact(row[5], row[6]) and check_number(bytes(row[5])) == row[7]


def attempt_of(row: Row) -> Attempt:
    return Attempt(
        job=row[0],
        n=row[1],
        cluster=row[2],
        token=row[3],
        state=AttemptState(row[4]),
        created_at=float(row[5]),  # SQLite's RETURNING gives whole numbers as int
        lease_until=None if row[6] is None else float(row[6]),
        accepted_at=row[7],
        started_at=row[8],
        ended_at=row[9],
        exit_code=row[10],
        failure=None if row[11] is None else Failure(row[11]),
        reason=row[12],
        native_id=row[13],
        suspect=bool(row[14]),
        holder=row[15],
        guarded=bool(row[16]),
        nodes=row[17],
        code=row[18],
    )


def event_of(row: Row) -> Event:
    seq, job, at, kind, state, attempt, detail = row
    return Event(
        seq=seq,
        job=job,
        at=at,
        kind=JobEvent(kind),
        state=JobState(state),
        attempt=attempt,
        detail={} if detail == "{}" else json.loads(detail),
    )


def cluster_of(row: Row) -> Cluster:
    return Cluster(
        id=row[0],
        name=row[1],
        standing=Standing(row[2]),
        manager=row[3],
        registered_at=row[4],
        seen_at=row[5],
        state=json.loads(row[6]),
        state_at=row[7],
        marks=json.loads(row[8]),
        used=json.loads(row[9]),
        rules=json.loads(row[10]),
        record=json.loads(row[11]),
        drain_reason=row[12],
        version=row[13],
        node_rules=None if row[14] is None else NodeRules.of(json.loads(row[14])),
        wrong_nodes=row[15],
    )


def credential_of(row: Row) -> Credential:
    return Credential(
        id=row[0],
        kind=CredentialKind(row[1]),
        digest=bytes(row[2]),
        owner=row[3],
        scopes=tuple(json.loads(row[4])),
        created_at=row[5],
        expires_at=row[6],
        revoked_at=row[7],
        used_at=row[8],
        uses_left=row[9],
        note=row[10],
    )
