"""What follows a commit: changes of the in-memory fleet and wake-ups, collected while the transaction runs.

A transaction that is rolled back or run again must not leave traces in memory, so use
cases write into an `Effects` and the core carries it out when the commit is durable.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rainbow_sched.model.cluster import Cluster
from rainbow_sched.store.records import RestoreReport

WAITERS = 500  # jobs that wait for others and are looked at in one transaction


@dataclass(slots=True)
class Effects:
    """Filled inside one transaction, carried out once after it."""

    clusters: dict[str, Cluster] = field(default_factory=dict)  # changed rows, by name
    removed: list[str] = field(default_factory=list)
    placed: list[tuple[str, str, str, str]] = field(default_factory=list)  # (cluster, fence, request, owner)
    released: list[tuple[str, str]] = field(default_factory=list)  # (cluster, fence): what it took is free again
    nodes: list[tuple[str, str, str]] = field(default_factory=list)  # (cluster, fence, hostlist): where it runs
    wake: set[str] = field(default_factory=set)  # clusters whose agents have something to fetch
    queued: list[int] = field(default_factory=list)  # jobs to be decided again
    gone: list[int] = field(default_factory=list)  # jobs that wait no more
    fortunes: list[tuple[str, bool]] = field(default_factory=list)  # (cluster, it went well)
    ended: deque[tuple[int, int]] = field(default_factory=deque)  # jobs whose waiters are to be settled, and from where
    room: int = WAITERS  # how many more of those this transaction takes
    settling: bool = False
    unsettled: bool = False  # some were left over
    reports: list[RestoreReport] = field(
        default_factory=list
    )  # clusters that have said what they know, after a restore
    events: bool = False
    output: bool = False

    def changed(self, cluster: Cluster) -> None:
        """Remember the row of a cluster as it is now."""
        self.clusters[cluster.name] = cluster
