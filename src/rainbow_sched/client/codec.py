"""Between the API's messages and the client's values; protobuf goes no further than this module."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rainbow_sched.client.submission import Submission
from rainbow_sched.client.views import (
    ClusterView,
    EventView,
    ExplanationView,
    FindingView,
    JobView,
    OfferView,
    PlanView,
    RestoreView,
    Submitted,
    Total,
    UnreportedView,
    View,
    timestamp,
)
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import Terms
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2, jobs_pb2

PIECE = 1 << 20
COMPRESS_ABOVE = 1 << 20
V = TypeVar("V", bound=View)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: every condition that is given holds."""

    states: Sequence[str] = ()
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] | None = None
    ids: Sequence[int] = ()
    since: float | None = None
    owner: str = ""


def filter_message(chosen: JobFilter) -> jobs_pb2.JobFilter:
    """As the server reads it."""
    return jobs_pb2.JobFilter(
        states=chosen.states,
        cluster=chosen.cluster,
        name=chosen.name,
        labels=chosen.labels,
        ids=chosen.ids,
        since=chosen.since,
        owner=chosen.owner,
    )


def terms_message(submission: Submission) -> jobs_pb2.Terms:
    """The terms of a submission, with its array and dependencies."""
    terms = submission.terms
    sayable = jobs_pb2.Terms.DESCRIPTOR.fields_by_name  # the rest is the server's own business
    plain = {spec.name: getattr(terms, spec.name) for spec in fields(Terms) if spec.name in sayable}
    plain["delivery"] = terms.delivery.value
    return jobs_pb2.Terms(**plain, array=submission.array, dependencies=submission.dependencies)


def spec_message(submission: Submission) -> jobs_pb2.Spec:
    """What is asked for."""
    if submission.canonical:
        return jobs_pb2.Spec(canonical=submission.canonical)
    return jobs_pb2.Spec(text=submission.text, dialect=submission.dialect)


def submit_message(submission: Submission) -> jobs_pb2.SubmitRequest:
    """One submission as the server reads it."""
    return jobs_pb2.SubmitRequest(
        name=submission.name,
        spec=spec_message(submission),
        terms=terms_message(submission),
        client_token=submission.client_token,
    )


def submitted(message: jobs_pb2.SubmitResponse) -> Submitted:
    """The answer to a submit."""
    return Submitted(message.id, message.state, message.cluster, message.reason)


def job(message: jobs_pb2.Job) -> JobView:
    """A job."""
    return _view(JobView, message, terms=_terms)


def event(message: jobs_pb2.Event) -> EventView:
    """An event."""
    return _view(EventView, message, detail=_json_object)


def plan(message: jobs_pb2.PlanResponse) -> PlanView:
    """A plan."""
    return PlanView(_json_object(message.decision), _explanations(message.explanations))


def explanation(message: jobs_pb2.ExplainResponse) -> ExplanationView:
    """A job's explanation."""
    return ExplanationView(
        job(message.job),
        _json_object(message.decision) or None,
        _explanations(message.explanations),
        tuple(event(item) for item in message.events),
    )


def cluster(message: clusters_pb2.Cluster) -> ClusterView:
    """A cluster."""
    return _view(
        ClusterView,
        message,
        state=_json_object,
        record=_json_object,
        rules=_json_object,
        node_rules=_json_object,
        totals=lambda totals: tuple(Total(t.type, t.unit, t.vertices, t.all, t.free) for t in totals),
        subsystems=tuple,
        tree=tuple,
    )


def restore(message: clusters_pb2.Restore) -> RestoreView:
    """What a restore found."""
    return _view(
        RestoreView,
        message,
        counts=dict,
        clusters=lambda rows: tuple(UnreportedView(row.name, row.state, row.why) for row in rows),
        findings=lambda rows: tuple(_view(FindingView, row) for row in rows),
    )


def offer(message: agents_pb2.Offer) -> OfferView:
    """A leased job."""
    return OfferView(
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


def graph_pieces(
    name: str, data: bytes, *, subsystem: str = "", manager: str = ""
) -> Iterator[clusters_pb2.GraphUpload]:
    """A header, then the graph in pieces of 1 MiB; a large one is compressed first."""
    sent = gzip.compress(data, compresslevel=5, mtime=0) if len(data) > COMPRESS_ABOVE else data
    header = clusters_pb2.GraphHeader(cluster=name, subsystem=subsystem, manager=manager, size=len(sent))
    yield clusters_pb2.GraphUpload(header=header)
    for start in range(0, len(sent), PIECE):
        yield clusters_pb2.GraphUpload(data=sent[start : start + PIECE])


def _view(cls: type[V], message: Any, **translate: Callable[[Any], Any]) -> V:
    """Fill a view from the fields of the message that it knows; a field that was not set stays at its default."""
    described = message.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    for spec in fields(cls):
        described_field = described.get(spec.name)
        if described_field is None or (described_field.has_presence and not message.HasField(spec.name)):
            continue
        value = getattr(message, spec.name)
        values[spec.name] = translate[spec.name](value) if spec.name in translate else value
    return cls(**values)


def _terms(message: jobs_pb2.Terms) -> dict[str, Any]:
    """Only what was said."""
    out: dict[str, Any] = {}
    for described, value in message.ListFields():
        if described.name in ("start_after", "deadline"):
            out[described.name] = timestamp(value)
        elif described.name in ("policy_options", "labels"):
            out[described.name] = dict(value)
        elif described.name in ("only_clusters", "not_clusters", "dependencies"):
            out[described.name] = list(value)
        else:
            out[described.name] = value
    return out


def _json_object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    found = _json(text)
    return found if isinstance(found, dict) else {}


def _explanations(text: str) -> tuple[dict[str, Any], ...]:
    """The clusters of `rainbow.explanations/1`; one that takes no work is among them as `closed`."""
    found = _json_object(text)
    closed = found.get("closed", {})
    shut = ({"cluster": name, "fit": "closed", "reasons": [{"sentence": why}]} for name, why in closed.items())
    return (*found.get("clusters", ()), *shut)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RainbowError(f"the server answered with JSON that cannot be read: {error}") from None
