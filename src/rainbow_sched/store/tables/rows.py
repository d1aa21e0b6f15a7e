"""Convert between database rows and model objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from typing import Any

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


def job_of(row: Row, *, check: bool) -> Job:
    """Convert the columns of `job_columns`; with `check`, raise Corrupt if the stored request has changed since."""
    (
        id, owner, name, state, hold, spec_digest, spec_body, spec_check, source_body, terms, cluster,
        attempt, failures, evaluations, evaluated_at, exit_code, reason, client_token, submitted_at,
        started_at, ended_at, version, reruns_used,
    ) = row  # fmt: skip
    if check and not (intact(spec_digest, spec_body) and check_number(bytes(spec_digest)) == spec_check):
        raise Corrupt(f"the stored request of job {id} is damaged: its hash does not match; it is never run")
    return Job(
        id=id,
        owner=owner,
        name=name,
        state=JobState(state),
        hold=None if hold is None else Hold(hold),
        spec="" if spec_body is None else decoded(spec_body),
        source="" if source_body is None else decoded(source_body),
        terms=terms_of(terms),
        cluster=cluster,
        attempt=attempt,
        failures=failures,
        evaluations=evaluations,
        evaluated_at=evaluated_at,
        exit_code=exit_code,
        reason=reason,
        client_token=client_token or "",
        submitted_at=submitted_at,
        started_at=started_at,
        ended_at=ended_at,
        version=version,
        reruns_used=reruns_used,
    )


def attempt_of(row: Iterable[Any]) -> Attempt:
    """Convert the columns of `attempt_columns`."""
    (
        job, n, cluster, token, state, created_at, lease_until, accepted_at, started_at, ended_at, exit_code,
        failure, reason, native_id, suspect, holder, guarded, nodes, code,
    ) = row  # fmt: skip
    return Attempt(
        job=job,
        n=n,
        cluster=cluster,
        token=token,
        state=AttemptState(state),
        created_at=float(created_at),  # SQLite's RETURNING gives whole numbers as int
        lease_until=None if lease_until is None else float(lease_until),
        accepted_at=accepted_at,
        started_at=started_at,
        ended_at=ended_at,
        exit_code=exit_code,
        failure=None if failure is None else Failure(failure),
        reason=reason,
        native_id=native_id,
        suspect=bool(suspect),
        holder=holder,
        guarded=bool(guarded),
        nodes=nodes,
        code=code,
    )


def event_of(row: Row) -> Event:
    """Convert the columns of an event."""
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
    """Convert the columns of `cluster_columns`."""
    (
        id, name, standing, manager, registered_at, seen_at, state, state_at, marks, used, rules, record,
        drain_reason, version, node_rules, wrong_nodes,
    ) = row  # fmt: skip
    return Cluster(
        id=id,
        name=name,
        standing=Standing(standing),
        manager=manager,
        registered_at=registered_at,
        seen_at=seen_at,
        state=json.loads(state),
        state_at=state_at,
        marks=json.loads(marks),
        used=json.loads(used),
        rules=json.loads(rules),
        record=json.loads(record),
        drain_reason=drain_reason,
        version=version,
        node_rules=None if node_rules is None else NodeRules.of(json.loads(node_rules)),
        wrong_nodes=wrong_nodes,
    )


def credential_of(row: Row) -> Credential:
    """Convert the columns of `credential_columns`."""
    (
        id, kind, digest, owner, scopes, created_at, expires_at, revoked_at, used_at, uses_left, note,
        ends_at, replaces, renewal_asked,
    ) = row  # fmt: skip
    return Credential(
        id=id,
        kind=CredentialKind(kind),
        digest=bytes(digest),
        owner=owner,
        scopes=tuple(json.loads(scopes)),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        used_at=used_at,
        uses_left=uses_left,
        note=note,
        ends_at=ends_at,
        replaces=replaces,
        renewal_asked=bool(renewal_asked),
    )
