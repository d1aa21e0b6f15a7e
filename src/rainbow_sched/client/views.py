"""What the server answers, as frozen values that print as plain JSON: an absent key is an unknown value."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rainbow_sched.model.job import TERMINAL


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    try:
        at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # one strange number must not hide all the others
        return f"{seconds:g}"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class View:
    """To plain values: times as text, nothing for what is not known."""

    def as_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        out: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None or (isinstance(value, str | tuple | Mapping) and not value):
                continue
            out[spec.name] = _plain(spec.name, value)
        return out


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, View):
        return value.as_dict()
    if isinstance(value, tuple):
        return [_plain("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain("", item) for key, item in value.items()}
    if (name.endswith("_at") or name == "at") and isinstance(value, float):
        return timestamp(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView(View):
    """A job as it is now."""

    id: int
    name: str = ""
    owner: str = ""
    state: str = ""
    cluster: str = ""
    nodes: int = 0
    attempt: int = 0
    attempt_state: str = ""
    native_id: str = ""
    exit_code: int | None = None
    failure: str = ""  # category: exit, time-limit, memory ...
    hosts: str = ""  # hostlist: where the manager runs it, as the agent reported
    code: str = ""  # typed reason why the last attempt was returned: wrong-nodes
    reason: str = ""
    hold: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    evaluations: int = 0
    evaluated_at: float | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)
    spec: str = ""
    source: str = ""
    unchanged: bool | None = None  # of a cancel: it had ended, or was being cancelled, before

    @property
    def ended(self) -> bool:
        """Nothing follows any more."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView(View):
    """One thing that happened to a job."""

    seq: int
    job: int
    at: float
    kind: str
    state: str
    attempt: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """The job ended with this event."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Chunk(View):
    """A piece of a job's output: `data` begins at byte `offset` of `stream`."""

    stream: str
    offset: int
    data: bytes

    def as_dict(self) -> dict[str, Any]:
        """As plain values; bytes that are not UTF-8 are replaced."""
        return {"stream": self.stream, "offset": self.offset, "text": self.data.decode("utf-8", "replace")}


@dataclass(frozen=True, slots=True)
class Submitted(View):
    """What a submit answers: the id is durable from here on."""

    id: int
    state: str = ""
    cluster: str = ""  # empty: not decided yet
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanView(View):
    """What would happen, and why: `rainbow.decision/2` and `rainbow.explanations/1`."""

    decision: Mapping[str, Any]
    explanations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExplanationView(View):
    """A job, its last decision, and why each cluster fits or does not, computed now."""

    job: JobView
    decision: Mapping[str, Any] | None = None
    explanations: tuple[Mapping[str, Any], ...] = ()
    events: tuple[EventView, ...] = ()


@dataclass(frozen=True, slots=True)
class Total(View):
    """How much of one resource type a cluster has."""

    type: str
    unit: str
    vertices: int
    all: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedView(View):
    """What became of the jobs of a cluster that was deleted; while some run, it is still there."""

    moved: int = 0  # go to another cluster
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView(View):
    """A cluster as it is now."""

    name: str
    standing: str = ""
    manager: str = ""
    registered_at: float | None = None
    seen_at: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    state_at: float | None = None
    totals: tuple[Total, ...] = ()
    subsystems: tuple[str, ...] = ()
    queued: int = 0
    running: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)
    wrong_nodes: int = 0  # jobs that its manager gave other nodes than they were allowed to run on
    node_rules: Mapping[str, Any] = field(default_factory=dict)  # what its agent can tell the manager about nodes
    tree: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreportedView(View):
    """A cluster that was registered when the database was restored."""

    name: str
    state: str  # awaited, unclear, given-up, reported
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView(View):
    """One thing that a restored server learned from a cluster."""

    seq: int
    at: float | None = None
    kind: str
    job: int
    attempt: int
    cluster: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreView(View):
    """The last restore of the server's database."""

    generation: int
    restored_at: float | None = None
    copied_at: float | None = None
    old_jobs: int = 0  # jobs from before have at most this id
    clusters: tuple[UnreportedView, ...] = ()
    jobs_waiting: int = 0
    jobs_unclear: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[FindingView, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered(View):
    """What a registration answers. Token and secret are shown once and never again."""

    cluster: str
    exists: bool
    token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferView(View):
    """A job leased to a receiver: it comes back to the queue unless it is accepted before `lease` seconds pass."""

    job: int
    n: int
    token: str = field(repr=False)
    name: str = ""
    owner: str = ""
    spec: str = ""
    terms: Mapping[str, Any] = field(default_factory=dict)
    lease: float = 0.0
    priority: int = 0
    array_index: int | None = None


@dataclass(frozen=True, slots=True)
class Who(View):
    """The caller, as the server sees it."""

    name: str
    kind: str
    scopes: tuple[str, ...] = ()
