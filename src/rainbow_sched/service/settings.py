"""Settings of the server, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that the server reads once at its start."""

    policy: str = "least"
    policy_options: Mapping[str, str] = field(default_factory=dict)
    stale_after: float = 300.0  # seconds after which a cluster's state counts as unknown
    bidders: int = 8  # clusters asked for one decision
    bid_deadline: float = 2.0  # seconds that a decision waits for bids
    lease: float = 60.0  # seconds to accept an offer once it was fetched; one that nobody fetched waits without limit
    long_poll: float = 25.0  # seconds after which an empty Sync is answered
    heartbeat: float = 20.0  # seconds between two Syncs of an agent; grows with the fleet
    silent_after: float = 60.0  # seconds after a missed heartbeat until the cluster is unreachable
    run_lease: float = 1_800.0  # seconds of silence until a guarded run with reruns and without --lost-after is lost
    shortest_lost_after: float = 300.0  # seconds that --lost-after must be at least; less would end runs of slow agents
    breaker: int = 3  # failures or refusals in a row that open the circuit breaker
    output_cap: int = 16 * 1024 * 1024  # bytes kept per job and stream: half from the head, half from the tail
    keep_days: int = 0  # finished jobs are removed after this many days; 0: never
    keep_jobs: int = 0  # number of finished jobs that are kept, newest first; 0: all
    graph_backend: str = "memory"
    graph_options: Mapping[str, str] = field(default_factory=dict)
    queued_per_owner: int = 1_000_000  # jobs of one owner that have not ended; set by the limit `queued`
