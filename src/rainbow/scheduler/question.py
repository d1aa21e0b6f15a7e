"""What is asked when a cluster is to be chosen: everything that one decision depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rainbow.model.candidate import NO_LIMITS, Candidate, Demand, Limits
from rainbow.model.match import Fit

STALE_AFTER = 300.0  # seconds; an older state is treated as unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that one decision depends on; nothing else influences it."""

    candidates: Sequence[Candidate]  # the clusters that fit, now or later, in any order
    demand: Demand
    policy: str = "random"
    options: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = NO_LIMITS
    misfits: Mapping[str, tuple[Fit, str]] = field(default_factory=dict)  # the others: fit and a short reason
    request_hash: str = ""
    seed: int = 0
    snapshot: int = 0
    now: float = 0.0  # epoch seconds
    stale_after: float = STALE_AFTER

    def chosen_policy(self) -> tuple[str, Mapping[str, str]]:
        """The policy and its options; the owner's preference takes the place of what was configured."""
        return (self.limits.prefer, {}) if self.limits.prefer else (self.policy, self.options)
