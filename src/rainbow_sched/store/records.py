"""The small values that only the store hands out or takes in: drafts, filters, accounts, commands, audit lines."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job import Hold, Job, JobState, Terms


@dataclass(frozen=True, slots=True)
class Dependency:
    """One job that another waits for."""

    kind: str  # after, afterok, afternotok, afterany
    job: int


PLAIN = Terms()


class NewJob(NamedTuple):
    """A job on its way into the store, with its first attempt and decision when it was bound at once.

    `state` is QUEUED, HELD, BOUND or INFEASIBLE. BOUND needs `cluster` and `token`.
    """

    owner: str
    name: str
    spec: str
    source: str = ""
    terms: Terms = PLAIN
    state: JobState = JobState.QUEUED
    hold: Hold | None = None
    reason: str = ""
    client_token: str = ""
    submitted_at: float = 0.0
    cluster: str = ""
    token: str = ""
    decision: StoredDecision | None = None  # kept under attempt 1 when bound, else under attempt 0
    evaluations: int = 0
    evaluated_at: float | None = None
    waits_for: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJob:
    """A queued job with what was decided: given to a cluster under a fence, or held."""

    job: Job
    decision: StoredDecision
    reason: str
    cluster: str = ""
    token: str = ""
    hold: Hold | None = None


class PlacedAttempt(NamedTuple):
    """A live attempt and what it asks for; `spec` is None if what was stored is damaged."""

    job: int
    token: str
    created_at: float
    spec: str | None
    owner: str
    nodes: str  # hostlist: where it runs, as far as its agent reported that


class WaitingJob(NamedTuple):
    """A job that waits; its terms are without labels and priority, so that many jobs share them."""

    job: int
    priority: int
    spec: str
    terms: Terms
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are meant; an empty field means all."""

    states: frozenset[JobState] = frozenset()
    owners: frozenset[str] = frozenset()
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: frozenset[int] | None = None  # None: all; empty: none
    since: float | None = None  # submitted at this time or later


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something an agent is to do to one attempt; it is told again until acknowledged."""

    id: int
    job: int
    n: int
    token: str  # the attempt's
    kind: str  # cancel, withdraw, kill
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user as the server knows one."""

    name: str
    groups: tuple[str, ...] = ()
    disabled: bool = False
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A name for several clusters, so that one credential can open them all."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One line of the audit log, chained to the line before it by `digest`."""

    seq: int
    at: float
    actor: str
    credential: str
    address: str
    verb: str
    object: str
    outcome: str
    detail: str
    digest: bytes


class ReportState(enum.StrEnum):
    """Whether a cluster has said, after a restore, what it knows."""

    AWAITED = "awaited"  # it has not reported: it may know of runs that the database does not
    UNCLEAR = "unclear"  # its agent is there and cannot tell everything
    GIVEN_UP = "given-up"  # an administrator said that it will not report
    REPORTED = "reported"  # it has; if its agent was started again with an old mark, it is asked once more

    @property
    def holds_jobs(self) -> bool:
        """True if old jobs that may have run there wait for it."""
        return self in (ReportState.AWAITED, ReportState.UNCLEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """A cluster that was registered when the database was restored."""

    cluster_id: int
    cluster: str
    generation: int
    state: ReportState
    why: str = ""  # of UNCLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a restored server learned from a cluster."""

    generation: int
    at: float
    kind: str
    job: int
    n: int
    cluster: str
    detail: str = ""
