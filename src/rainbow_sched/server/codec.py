"""Convert between protobuf messages and values of the Jobs service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.message import Message

from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.jobspecs.dialects.requirements import check_bounds
from rainbow_sched.jobspecs.reading.counts import ARRAY_LABEL, array_indices
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import MAX_DEPENDENCIES, MAX_LABELS, Delivery, Event, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.pb.v2 import jobs_pb2 as pb
from rainbow_sched.service.caches import RequestCache
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.submission.new_jobs import Receipt
from rainbow_sched.service.views.explanation import JobExplanation
from rainbow_sched.service.views.jobs import JobWithAttempt
from rainbow_sched.store.base import Dependency, JobSelection

MAX_CACHED = 2_048  # entries of each cache
MAX_CACHED_TERMS_BYTES = 1_024  # longer terms are not cached, which bounds the memory of the cache
MAX_SPEC_CHARS = 64 * 1024  # bounds the time to read one jobspec
NOT_TERMS = ("array", "dependencies")  # fields of the message that become jobs and Dependencies
MAX_IDS = 30_000  # SQLite binds 32766 values
MAX_PAGE_BYTES = 3 * 1024 * 1024  # clients commonly accept messages of 4 MiB
M = TypeVar("M", bound=Message)
_DEPENDENCY = re.compile(r"(after|afterok|afternotok|afterany):([0-9]{1,18})")


class SubmissionReader:
    """Parses specs and terms, with a cache of each by their text; the least recently used are dropped."""

    def __init__(self, requests: RequestCache) -> None:
        self._requests = requests
        self._parsed_spec = lru_cache(MAX_CACHED)(self._parse_spec)
        self._parsed_terms = lru_cache(MAX_CACHED)(_parse_terms)

    def spec(self, spec: pb.Spec) -> tuple[PreparedRequest, str]:
        """Return the request and the submitted text (empty if it was canonical)."""
        text = spec.canonical or spec.text
        if not text:
            raise Invalid("there is nothing to run: give a command, a jobspec or a script")
        if len(text) > MAX_SPEC_CHARS:
            raise Invalid(f"a jobspec has at most {MAX_SPEC_CHARS} characters; this one has {len(text)}")
        return self._parsed_spec(text, bool(spec.canonical), spec.dialect)

    def _parse_spec(self, text: str, canonical: bool, dialect: str) -> tuple[PreparedRequest, str]:
        if not canonical:
            return self._requests.add(parse(text, dialect=dialect or None)), text
        request = from_json(text)
        check_bounds(request)
        return self._requests.add(request), ""

    def terms(self, message: pb.Terms, by: Principal) -> tuple[Terms, tuple[Dependency, ...]]:
        """Return the terms and the dependencies; jobs with the same terms share one object."""
        text, clusters = message.SerializeToString(), opened(by)
        if len(text) > MAX_CACHED_TERMS_BYTES:
            return _parse_terms(text, clusters)
        return self._parsed_terms(text, clusters)


def _parse_terms(text: bytes, clusters: tuple[str, ...]) -> tuple[Terms, tuple[Dependency, ...]]:
    message = pb.Terms.FromString(text)
    return terms_in(message, clusters), _dependencies(message)


def submissions(reader: SubmissionReader, message: pb.SubmitRequest, by: Principal) -> list[Submission]:
    """Return the submissions of a message: one, or one per index of an array."""
    request, source = reader.spec(message.spec)
    terms, waits_for = reader.terms(message.terms, by)
    common = Submission(
        owner=by.name,
        request=request,
        source=source,
        name=message.name or request.request.name,
        terms=terms,
        client_token=message.client_token,
        waits_for=waits_for,
    )
    if not message.terms.array:
        return [common]
    made = []
    for index in array_indices(message.terms.array):
        token = f"{message.client_token}#{index}" if message.client_token else ""
        terms = terms_in(message.terms, opened(by), {ARRAY_LABEL: str(index)})
        made.append(replace(common, terms=terms, client_token=token))
    return made


def _dependencies(message: pb.Terms) -> tuple[Dependency, ...]:
    if len(message.dependencies) > MAX_DEPENDENCIES:
        raise Invalid(f"a job waits for at most {MAX_DEPENDENCIES} others")
    found = []
    for text in message.dependencies:
        parts = _DEPENDENCY.fullmatch(text)
        if not parts:
            raise Invalid(f"{text!r} is not a dependency; write after:ID, afterok:ID, afternotok:ID or afterany:ID")
        found.append(Dependency(parts[1], int(parts[2])))
    return tuple(found)


def terms_in(message: pb.Terms, clusters: tuple[str, ...], extra: dict[str, str] | None = None) -> Terms:
    """Return the terms of a submission; `clusters`: those that the caller's credential allows (see `opened`)."""
    try:
        delivery = Delivery(message.delivery or Delivery.AT_MOST_ONCE.value)
    except ValueError:
        raise Invalid(f"delivery is at-most-once or at-least-once, not {message.delivery!r}") from None
    fields: dict[str, Any] = {field.name: value for field, value in message.ListFields() if field.name not in NOT_TERMS}
    fields |= {name: tuple(fields[name]) for name in ("only_clusters", "not_clusters") if name in fields}
    fields |= {"policy_options": dict(message.policy_options), "labels": {**message.labels, **(extra or {})}}
    return Terms(**{**fields, "delivery": delivery, "opened": clusters})


def opened(by: Principal) -> tuple[str, ...]:
    """Return the patterns of clusters that a caller may submit to; empty means all."""
    scopes = () if by.admin or "submit:*" in by.scopes else by.scopes
    return tuple(sorted(scope.partition(":")[2] for scope in scopes if scope.startswith("submit:")))


def terms_out(terms: Terms) -> pb.Terms:
    return message_of(pb.Terms, terms, **dict.fromkeys(NOT_TERMS))


def message_of(kind: type[M], value: object, /, **fields: object) -> M:
    """Return a message with the fields of a value that have the same names; `fields`: those that differ."""
    for name in kind.DESCRIPTOR.fields_by_name:
        if name not in fields:
            fields[name] = getattr(value, name)
    return kind(**fields)


def receipt_out(receipt: Receipt) -> pb.SubmitResponse:
    return pb.SubmitResponse(id=receipt.id, state=receipt.state.value, cluster=receipt.cluster, reason=receipt.reason)


def job_out(view: JobWithAttempt, *, spec: bool = False, nodes: int = 0) -> pb.Job:
    job, attempt = view.job, view.attempt
    return pb.Job(
        id=job.id,
        owner=job.owner,
        name=job.name,
        state=job.state.value,
        cluster=job.cluster,
        attempt=job.attempt,
        attempt_state=attempt.state.value if attempt else "",
        native_id=attempt.native_id if attempt else "",
        exit_code=job.exit_code,
        reason=job.reason,
        hold=job.hold.value if job.hold else "",
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        spec=job.spec if spec else "",
        source=job.source if spec else "",
        terms=terms_out(job.terms),
        evaluations=job.evaluations,
        evaluated_at=job.evaluated_at,
        nodes=nodes,
        failure=attempt.failure.value if attempt and attempt.failure else "",
        hosts=attempt.nodes if attempt else "",
        code=attempt.code if attempt else "",
    )


def page_out(made: Iterable[pb.Job], limit: int) -> pb.ListJobsResponse:
    """Return as many jobs as fit into one response, and the start of the next page."""
    page, size, jobs = pb.ListJobsResponse(), 0, list(made)
    for job in jobs:
        size += job.ByteSize()
        if size > MAX_PAGE_BYTES and page.jobs:
            break
        page.jobs.append(job)
    if page.jobs and (len(page.jobs) < len(jobs) or len(jobs) == limit):
        page.next = page.jobs[-1].id
    return page


def filter_in(message: pb.JobFilter) -> JobSelection:
    checked_ids(message.ids)
    if len(message.labels) > MAX_LABELS:
        raise Invalid(f"a filter names at most {MAX_LABELS} labels")
    try:
        states = frozenset(JobState(state) for state in message.states)
    except ValueError as error:
        raise Invalid(f"{error}; the states are {', '.join(JobState)}") from None
    return JobSelection(
        states=states,
        owners=frozenset({message.owner} if message.owner else ()),
        cluster=message.cluster,
        name=message.name,
        labels=dict(message.labels),
        ids=frozenset(message.ids) if message.ids else None,
        since=message.since if message.HasField("since") else None,
    )


def checked_ids(ids: Sequence[int]) -> Sequence[int]:
    """Return `ids`; raise Invalid if there are too many for one query."""
    if len(ids) > MAX_IDS:
        raise Invalid(f"a call names at most {MAX_IDS} jobs; use several calls, or another filter")
    return ids


def event_out(event: Event) -> pb.Event:
    return message_of(pb.Event, event, detail=json.dumps(event.detail))


def story_out(story: JobExplanation, nodes: int) -> pb.ExplainResponse:
    job = job_out(story.view, spec=True, nodes=nodes)
    job.evaluations = story.evaluations
    if story.evaluated_at is not None:
        job.evaluated_at = story.evaluated_at
    return pb.ExplainResponse(
        job=job,
        decision=story.decision,
        explanations=story.explanations,
        events=[event_out(event) for event in story.events],
    )
