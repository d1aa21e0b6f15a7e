"""What an operator can set, with the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One value per knob; the server reads them once, at its start."""

    policy: str = "least"
    policy_options: Mapping[str, str] = field(default_factory=dict)
    stale_after: float = 300.0  # seconds after which a cluster's state counts as unknown
    bidders: int = 8  # clusters asked for one decision
    bid_deadline: float = 2.0
    lease: float = 60.0  # seconds an offer waits for its acceptance
    long_poll: float = 25.0  # a Sync with nothing to say is answered after this
    heartbeat: float = 20.0  # an agent speaks at least this often; scaled up with the fleet
    silent_after: float = 60.0  # beyond the heartbeat: then a cluster with an agent is unreachable
    run_lease: float = 1_800.0  # of silence, after which a run that may be repeated is; its guard acts before (agent)
    shortest_lost_after: float = 300.0  # seconds; less would give up, and end, runs whose agent is only slow
    breaker: int = 3  # failures or refusals in a row that trip a cluster's breaker
    output_cap: int = 16 * 1024 * 1024  # bytes kept per job and stream: half from the head, half from the tail
    keep_days: int = 0  # finished jobs are removed after so many days; 0: never
    keep_jobs: int = 0  # of finished jobs, the newest so many are kept; 0: all
    graph_backend: str = "memory"
    graph_options: Mapping[str, str] = field(default_factory=dict)
    queued_per_owner: int = 1_000_000
