"""Convert between protobuf messages of the API and the client's values."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.client.views import (
    AuditLine,
    AuditLog,
    ClusterInfo,
    EventInfo,
    ExplanationInfo,
    FindingInfo,
    GroupInfo,
    JobInfo,
    OfferInfo,
    PlanInfo,
    ReportInfo,
    ResourceTotal,
    RestoreInfo,
    ServerValue,
    Submitted,
    TokenInfo,
    UserInfo,
    timestamp,
)
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import Terms
from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2

CHUNK_BYTES = 1 << 20
COMPRESS_ABOVE_BYTES = 1 << 20
V = TypeVar("V", bound=ServerValue)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Conditions on jobs; a job must meet all that are set."""

    states: Sequence[str] = ()
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] | None = None
    ids: Sequence[int] = ()
    since: float | None = None
    owner: str = ""


def filter_message(selected: JobFilter) -> jobs_pb2.JobFilter:
    return jobs_pb2.JobFilter(
        states=selected.states,
        cluster=selected.cluster,
        name=selected.name,
        labels=selected.labels,
        ids=selected.ids,
        since=selected.since,
        owner=selected.owner,
    )


def terms_message(submission: JobSubmission) -> jobs_pb2.Terms:
    """Return the terms of a submission, with its array and dependencies."""
    terms = submission.terms
    known = jobs_pb2.Terms.DESCRIPTOR.fields_by_name  # the server sets the other fields
    values = {spec.name: getattr(terms, spec.name) for spec in fields(Terms) if spec.name in known}
    values["delivery"] = terms.delivery.value
    return jobs_pb2.Terms(**values, array=submission.array, dependencies=submission.dependencies)


def spec_message(submission: JobSubmission) -> jobs_pb2.Spec:
    if submission.canonical:
        return jobs_pb2.Spec(canonical=submission.canonical)
    return jobs_pb2.Spec(text=submission.text, dialect=submission.dialect)


def submit_message(submission: JobSubmission) -> jobs_pb2.SubmitRequest:
    return jobs_pb2.SubmitRequest(
        name=submission.name,
        spec=spec_message(submission),
        terms=terms_message(submission),
        client_token=submission.client_token,
    )


def submitted(message: jobs_pb2.SubmitResponse) -> Submitted:
    return Submitted(message.id, message.state, message.cluster, message.reason)


def job(message: jobs_pb2.Job) -> JobInfo:
    return _view(JobInfo, message, terms=_terms)


def event(message: jobs_pb2.Event) -> EventInfo:
    return _view(EventInfo, message, detail=_json_object)


def plan(message: jobs_pb2.PlanResponse) -> PlanInfo:
    return PlanInfo(_json_object(message.decision), _explanations(message.explanations))


def explanation(message: jobs_pb2.ExplainResponse) -> ExplanationInfo:
    return ExplanationInfo(
        job(message.job),
        _json_object(message.decision) or None,
        _explanations(message.explanations),
        tuple(event(item) for item in message.events),
    )


def cluster(message: clusters_pb2.Cluster) -> ClusterInfo:
    return _view(
        ClusterInfo,
        message,
        state=_json_object,
        record=_json_object,
        rules=_json_object,
        node_rules=_json_object,
        totals=lambda totals: tuple(ResourceTotal(t.type, t.unit, t.vertices, t.all, t.free) for t in totals),
        subsystems=tuple,
        tree=tuple,
    )


def restore(message: clusters_pb2.Restore) -> RestoreInfo:
    return _view(
        RestoreInfo,
        message,
        counts=dict,
        clusters=lambda rows: tuple(ReportInfo(row.name, row.state, row.why) for row in rows),
        findings=lambda rows: tuple(_view(FindingInfo, row) for row in rows),
    )


def offer(message: agents_pb2.Offer) -> OfferInfo:
    return OfferInfo(
        job=message.attempt.job,
        n=message.attempt.n,
        token=message.attempt.token,
        name=message.name,
        owner=message.owner,
        spec=message.spec,
        terms=_json_object(message.terms),
        lease=message.lease,
        priority=message.priority,
        array_index=message.array_index if message.is_array else None,
    )


def user(message: access_pb2.User) -> UserInfo:
    return _view(UserInfo, message, groups=tuple, rights=tuple)


def group(message: access_pb2.Group) -> GroupInfo:
    return _view(GroupInfo, message, clusters=tuple, rights=tuple, users=tuple)


def token(message: access_pb2.Token) -> TokenInfo:
    return _view(TokenInfo, message, scopes=tuple)


def audit_log(message: access_pb2.ReadAuditResponse) -> AuditLog:
    return _view(AuditLog, message, lines=lambda lines: tuple(_view(AuditLine, line) for line in lines))


def graph_chunks(
    name: str, data: bytes, *, subsystem: str = "", manager: str = ""
) -> Iterator[clusters_pb2.GraphUpload]:
    """Yield a header, then the graph in chunks of 1 MiB; a large graph is compressed."""
    sent = gzip.compress(data, compresslevel=5, mtime=0) if len(data) > COMPRESS_ABOVE_BYTES else data
    header = clusters_pb2.GraphHeader(cluster=name, subsystem=subsystem, manager=manager, size=len(sent))
    yield clusters_pb2.GraphUpload(header=header)
    for start in range(0, len(sent), CHUNK_BYTES):
        yield clusters_pb2.GraphUpload(data=sent[start : start + CHUNK_BYTES])


def _view(cls: type[V], message: Any, **convert: Callable[[Any], Any]) -> V:
    """Create a view from the fields of the same names; an unset optional field keeps the view's default."""
    message_fields = message.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    for spec in fields(cls):
        message_field = message_fields.get(spec.name)
        if message_field is None or (message_field.has_presence and not message.HasField(spec.name)):
            continue
        value = getattr(message, spec.name)
        values[spec.name] = convert[spec.name](value) if spec.name in convert else value
    return cls(**values)


def _terms(message: jobs_pb2.Terms) -> dict[str, Any]:
    """Return the terms that are set."""
    out: dict[str, Any] = {}
    for spec, value in message.ListFields():
        if spec.name in ("start_after", "deadline"):
            out[spec.name] = timestamp(value)
        elif spec.name in ("policy_options", "labels"):
            out[spec.name] = dict(value)
        elif spec.name in ("only_clusters", "not_clusters", "dependencies"):
            out[spec.name] = list(value)
        else:
            out[spec.name] = value
    return out


def _json_object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RainbowError(f"the server sent invalid JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _explanations(text: str) -> tuple[dict[str, Any], ...]:
    """Return the clusters of `rainbow.explanations/1`, then those that accept no work, as `closed`."""
    document = _json_object(text)
    reasons = document.get("closed", {}).items()
    closed = ({"cluster": name, "fit": "closed", "reasons": [{"sentence": reason}]} for name, reason in reasons)
    return (*document.get("clusters", ()), *closed)
