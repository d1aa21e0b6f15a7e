"""Values of the store's interface: new jobs, filters, accounts, commands, audit lines."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job import Hold, Job, Terms
from rainbow_sched.model.job_state import JobState


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of a job on another."""

    kind: str  # after, afterok, afternotok, afterany
    job: int


_DEFAULT_TERMS = Terms()


class NewJob(NamedTuple):
    """A job to be stored, with its first attempt and decision if it was bound at submission.

    `state` is QUEUED, HELD, BOUND or INFEASIBLE. BOUND needs `cluster` and `token`.
    """

    owner: str
    name: str
    spec: str
    source: str = ""
    terms: Terms = _DEFAULT_TERMS
    state: JobState = JobState.QUEUED
    hold: Hold | None = None
    reason: str = ""
    client_token: str = ""
    submitted_at: float = 0.0
    cluster: str = ""
    token: str = ""
    decision: StoredDecision | None = None  # stored under attempt 1 if bound, else under attempt 0
    evaluations: int = 0
    evaluated_at: float | None = None
    waits_for: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJob:
    """A queued job and its decision: bound to a cluster with a fencing token, or held."""

    job: Job
    decision: StoredDecision
    reason: str
    cluster: str = ""
    token: str = ""
    hold: Hold | None = None


class PlacedAttempt(NamedTuple):
    """A live attempt with its job's spec, which is None if the stored spec is damaged."""

    job: int
    token: str
    created_at: float
    spec: str | None
    owner: str
    nodes: str  # hostlist, as reported by the agent


class WaitingJob(NamedTuple):
    """A waiting job. Its terms omit labels and priority, so that many jobs share one object."""

    job: int
    priority: int
    spec: str
    terms: Terms
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """A selection of jobs; an empty field matches all."""

    states: frozenset[JobState] = frozenset()
    owners: frozenset[str] = frozenset()
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ids: frozenset[int] | None = None  # None: all; empty: none
    since: float | None = None  # submitted at this time or later


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to an agent about one attempt; it is resent until acknowledged."""

    id: int
    job: int
    n: int
    token: str  # the attempt's
    kind: str  # cancel, withdraw, kill
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user account."""

    name: str
    groups: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()  # its own; those of its groups are added to them
    disabled: bool = False
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A named set of clusters, which one credential can grant access to."""

    name: str
    clusters: tuple[str, ...]
    rights: tuple[str, ...] = ()  # of its users


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One line of the audit log, chained to the previous line by `digest`."""

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
    """Whether a cluster has reported its attempts after a restore."""

    AWAITED = "awaited"  # no report yet: the cluster may have runs that the database does not
    UNCLEAR = "unclear"  # the agent is connected and its report is incomplete
    GIVEN_UP = "given-up"  # an administrator declared that it will not report
    REPORTED = "reported"  # complete; an agent that restarts with an old mark reports again

    @property
    def holds_jobs(self) -> bool:
        """Return True if jobs from before the restore wait for this report."""
        return self in (ReportState.AWAITED, ReportState.UNCLEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The report state of a cluster that was registered at the last restore."""

    cluster_id: int
    cluster: str
    generation: int
    state: ReportState
    why: str = ""  # of UNCLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFinding:
    """A difference between a restored database and a cluster's report."""

    generation: int
    at: float
    kind: str
    job: int
    n: int
    cluster: str
    detail: str = ""
