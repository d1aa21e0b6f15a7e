"""The input of one decision: the request's criteria, the candidate clusters, seed and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.model.candidate import NO_LIMITS, Candidate, Demand, OwnerLimits
from rainbow_sched.model.match import Fit

STALE_AFTER_SECONDS = 300.0  # an older state is treated as unknown
NO_MISFITS: Mapping[str, tuple[Fit, str]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Demand, policy and limits of a request, without the fleet; equal requests share one object."""

    demand: Demand
    policy: str = "random"
    options: Mapping[str, str] = field(default_factory=dict)
    limits: OwnerLimits = NO_LIMITS
    request_hash: str = ""
    stale_after: float = STALE_AFTER_SECONDS

    @cached_property
    def chosen_policy(self) -> tuple[str, Mapping[str, str]]:
        """The policy and its options; the owner's preference replaces the configured policy."""
        return (self.limits.prefer, {}) if self.limits.prefer else (self.policy, self.options)

    @cached_property
    def bounded(self) -> bool:
        """True if there is a deadline or a cost limit; both need bids."""
        return self.limits.deadline is not None or self.limits.max_cost is not None


class Question(NamedTuple):
    """Everything that a decision depends on."""

    criteria: Criteria
    candidates: Sequence[Candidate]  # the clusters that fit, now or later, in any order
    misfits: Mapping[str, tuple[Fit, str]] = NO_MISFITS  # other clusters: fit and a short reason
    seed: int = 0
    snapshot: int = 0
    now: float = 0.0  # epoch seconds
