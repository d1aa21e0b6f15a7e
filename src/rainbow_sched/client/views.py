"""The server's answers as frozen values that convert to plain JSON; an unknown value has no key."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rainbow_sched.model.job import TERMINAL


def timestamp(seconds: float) -> str:
    """Format a time as RFC 3339 in UTC, to the millisecond."""
    try:
        at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # one invalid time must not prevent the output of the others
        return f"{seconds:g}"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class ServerValue:
    """Base of all values in answers of the server."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: times as text, unknown values left out."""
        out: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None or (isinstance(value, str | tuple | Mapping) and not value):
                continue
            out[spec.name] = _plain(spec.name, value)
        return out


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, ServerValue):
        return value.as_dict()
    if isinstance(value, tuple):
        return [_plain("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain("", item) for key, item in value.items()}
    if (name.endswith("_at") or name == "at") and isinstance(value, float):
        return timestamp(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo(ServerValue):
    """The current state of a job."""

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
    hosts: str = ""  # hostlist of the nodes that run it, as reported by the agent
    code: str = ""  # code of the reason why the last attempt was returned: wrong-nodes
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
    unchanged: bool | None = None  # in the answer to a cancel: it had already ended or was already cancelling

    @property
    def ended(self) -> bool:
        """True if the job is in a final state."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo(ServerValue):
    """One change of a job."""

    seq: int
    job: int
    at: float
    kind: str
    state: str
    attempt: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """True if the job ended with this event."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class StreamChunk(ServerValue):
    """A piece of a job's output: `data` begins at byte `offset` of `stream`."""

    stream: str
    offset: int
    data: bytes

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; bytes that are not UTF-8 are replaced."""
        return {"stream": self.stream, "offset": self.offset, "text": self.data.decode("utf-8", "replace")}


@dataclass(frozen=True, slots=True)
class Submitted(ServerValue):
    """The answer to a submit; the job is stored."""

    id: int
    state: str = ""
    cluster: str = ""  # empty: no cluster chosen yet
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanInfo(ServerValue):
    """The decision for a job that was not submitted: `rainbow.decision/2` and `rainbow.explanations/1`."""

    decision: Mapping[str, Any]
    explanations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExplanationInfo(ServerValue):
    """A job, its last decision, and a current explanation for each cluster."""

    job: JobInfo
    decision: Mapping[str, Any] | None = None
    explanations: tuple[Mapping[str, Any], ...] = ()
    events: tuple[EventInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceTotal(ServerValue):
    """The amount of one resource type in a cluster."""

    type: str
    unit: str
    vertices: int
    all: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionInfo(ServerValue):
    """The jobs of a deleted cluster. The cluster exists until the running ones have ended."""

    moved: int = 0  # jobs that go to another cluster
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(ServerValue):
    """The current state of a cluster."""

    name: str
    standing: str = ""
    manager: str = ""
    registered_at: float | None = None
    seen_at: float | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    state_at: float | None = None
    totals: tuple[ResourceTotal, ...] = ()
    subsystems: tuple[str, ...] = ()
    queued: int = 0
    running: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)
    wrong_nodes: int = 0  # jobs that its manager placed on nodes where they must not run
    node_rules: Mapping[str, Any] = field(default_factory=dict)  # node constraints that its agent can enforce
    tree: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportInfo(ServerValue):
    """A cluster that was registered when the database was restored, and the state of its report."""

    name: str
    state: str  # awaited, unclear, given-up, reported
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingInfo(ServerValue):
    """One difference between the restored database and a cluster's report."""

    seq: int
    at: float | None = None
    kind: str
    job: int
    attempt: int
    cluster: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreInfo(ServerValue):
    """The last restore of the server's database."""

    generation: int
    restored_at: float | None = None
    copied_at: float | None = None
    old_jobs: int = 0  # largest id of a job from before the restore
    clusters: tuple[ReportInfo, ...] = ()
    jobs_waiting: int = 0
    jobs_unclear: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[FindingInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrationInfo(ServerValue):
    """The answer to a registration. Token and secret are shown only once."""

    cluster: str
    exists: bool
    token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferInfo(ServerValue):
    """A job leased to a receiver. It returns to the queue unless it is accepted within `lease` seconds."""

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
class CallerInfo(ServerValue):
    """The caller as the server sees it."""

    name: str
    kind: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo(ServerValue):
    """A user; `rights` are the user's own, without those of the groups."""

    name: str
    groups: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    disabled: bool = False
    created_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo(ServerValue):
    """A group: the clusters of `@NAME`, and rights that its users have."""

    name: str
    clusters: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInfo(ServerValue):
    """A token as the server stores it, without its text."""

    id: str
    kind: str
    owner: str
    scopes: tuple[str, ...] = ()
    created_at: float | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    uses_left: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class NewToken(ServerValue):
    """A token and its text, which is shown only once."""

    token: TokenInfo
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine(ServerValue):
    """One line of the audit log."""

    seq: int
    at: float
    actor: str
    credential: str = ""
    address: str = ""
    verb: str = ""
    object: str = ""
    outcome: str = ""
    detail: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog(ServerValue):
    """Some lines of the audit log; pass `next` as `after` to read on, 0 at the end."""

    lines: tuple[AuditLine, ...]
    next: int = 0
    count: int = 0
    verified: bool = False
    broken_at: int = 0
