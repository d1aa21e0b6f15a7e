"""The input of one decision: the request's criteria, the candidate clusters, seed and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from rainbow_sched.model.candidate import NO_LIMITS, Candidate, Demand, OwnerLimits
from rainbow_sched.model.decision import CRITERIA_KEYS, CriteriaPart
from rainbow_sched.model.match import Fit

STALE_AFTER_SECONDS = 300.0  # an older state is treated as unknown
NO_MISFITS: Mapping[str, tuple[Fit, str]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Demand, policy and limits of a request, without the fleet; equal requests share one object."""

    demand: Demand
    policy: str
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

    @cached_property
    def record_part(self) -> CriteriaPart:
        """The criteria as a decision's record holds them."""
        policy, options = self.chosen_policy
        policy_part = {
            "name": policy,
            "options": dict(options),
            "configured": self.policy,
            "configured_options": dict(self.options),
        }
        parts = (_request(self.request_hash, self.demand), policy_part, _limits(self.limits), self.stale_after)
        return CriteriaPart(dict(zip(CRITERIA_KEYS, parts, strict=True)))


class Question(NamedTuple):
    """Everything that a decision depends on."""

    criteria: Criteria
    candidates: Sequence[Candidate]  # the clusters that fit, now or later, in any order
    misfits: Mapping[str, tuple[Fit, str]] = NO_MISFITS  # other clusters: fit and a short reason
    seed: int = 0
    snapshot: int = 0
    now: float = 0.0  # epoch seconds


def _request(hash: str, demand: Demand) -> dict[str, Any]:
    return {
        "hash": hash,
        "name": demand.name,
        "nodes": demand.nodes,
        "cores": demand.cores,
        "duration": demand.duration,
        "parameters": dict(demand.parameters),
        "options": dict(demand.options),
    }


def _limits(limits: OwnerLimits) -> dict[str, Any]:
    return {
        "deadline": limits.deadline,
        "max_cost": limits.max_cost,
        "only": sorted(limits.only),
        "never": sorted(limits.never),
        "prefer": limits.prefer,
        "later": limits.later,
        "otherwise": limits.otherwise,
    }
