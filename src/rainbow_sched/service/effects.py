"""Effects of a transaction: changes of the fleet in memory and wake-ups, applied after the commit.

A transaction that is rolled back or run again must leave no traces in memory, so use cases write
into an `Effects`, and the core applies it once the commit is durable.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rainbow_sched.model.cluster import Cluster
from rainbow_sched.store.records import RestoreReport, WaitingJob

MAX_DEPENDENTS_PER_WRITE = 500  # jobs settled in one transaction; bounds the wait of other writes


@dataclass(slots=True)
class Effects:
    """Effects collected in one transaction and applied once after it."""

    clusters: dict[str, Cluster] = field(default_factory=dict)  # changed rows, by name
    removed: list[str] = field(default_factory=list)
    placed: list[tuple[str, str, str, str]] = field(default_factory=list)  # (cluster, fence, request, owner)
    released: list[tuple[str, str]] = field(default_factory=list)  # (cluster, fence)
    nodes: list[tuple[str, str, str]] = field(default_factory=list)  # (cluster, fence, hostlist)
    wake: set[str] = field(default_factory=set)  # clusters whose agents have new work
    queued: list[int] = field(default_factory=list)  # jobs to decide
    waiting: list[tuple[WaitingJob, str]] = field(default_factory=list)  # jobs that nothing fits now, see `PendingJobs`
    left_pending: list[int] = field(default_factory=list)  # jobs to drop from the pending ones
    outcomes: list[tuple[str, bool]] = field(default_factory=list)  # (cluster, success), for the circuit breaker
    to_settle: deque[tuple[int, int]] = field(default_factory=deque)  # (job, after which dependent)
    dependents_left: int = MAX_DEPENDENTS_PER_WRITE  # dependents that this transaction may still settle
    settling: bool = False
    unsettled: bool = False  # some dependents are left over
    cluster_reports: list[RestoreReport] = field(default_factory=list)  # clusters that reported after a restore
    events: bool = False
    output: bool = False

    def changed(self, cluster: Cluster) -> None:
        """Record the new row of a cluster."""
        self.clusters[cluster.name] = cluster
