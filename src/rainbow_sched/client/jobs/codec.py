"""Convert between the messages of `rainbow.v2.Jobs` and the client's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rainbow_sched.client.jobs.views import EventInfo, ExplanationInfo, JobInfo, PlanInfo, Submitted
from rainbow_sched.client.views import from_message, json_object, timestamp
from rainbow_sched.pb.v2 import jobs_pb2

if TYPE_CHECKING:
    from rainbow_sched.client.submission import JobSubmission


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
    values = {spec.name: getattr(terms, spec.name) for spec in fields(terms) if spec.name in known}
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
    return from_message(JobInfo, message, terms=_terms)


def event(message: jobs_pb2.Event) -> EventInfo:
    return from_message(EventInfo, message, detail=json_object)


def plan(message: jobs_pb2.PlanResponse) -> PlanInfo:
    return PlanInfo(json_object(message.decision), _explanations(message.explanations))


def explanation(message: jobs_pb2.ExplainResponse) -> ExplanationInfo:
    return ExplanationInfo(
        job(message.job),
        json_object(message.decision) or None,
        _explanations(message.explanations),
        tuple(event(item) for item in message.events),
    )


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


def _explanations(text: str) -> tuple[dict[str, Any], ...]:
    """Return the clusters of `rainbow.explanations/1`, then those that accept no work, as `closed`."""
    document = json_object(text)
    reasons = document.get("closed", {}).items()
    closed = ({"cluster": name, "fit": "closed", "reasons": [{"sentence": reason}]} for name, reason in reasons)
    return (*document.get("clusters", ()), *closed)
