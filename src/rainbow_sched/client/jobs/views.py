"""The server's answers about jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rainbow_sched.client.views import ServerValue
from rainbow_sched.model.job_state import TERMINAL


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
