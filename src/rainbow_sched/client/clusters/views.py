"""The server's answers about clusters, and about a restored database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rainbow_sched.client.views import ServerValue


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
