"""What is asked when a cluster is to be chosen: everything that one decision depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.model.candidate import NO_LIMITS, Candidate, Demand, Limits
from rainbow_sched.model.match import Fit

STALE_AFTER = 300.0  # seconds; an older state is treated as unknown
NO_MISFITS: Mapping[str, tuple[Fit, str]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """What is asked of whatever fleet there is; one object for all jobs that ask the same."""

    demand: Demand
    policy: str = "random"
    options: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = NO_LIMITS
    request_hash: str = ""
    stale_after: float = STALE_AFTER

    @cached_property
    def chosen_policy(self) -> tuple[str, Mapping[str, str]]:
        """The policy and its options; the owner's preference takes the place of what was configured."""
        return (self.limits.prefer, {}) if self.limits.prefer else (self.policy, self.options)

    @cached_property
    def bounded(self) -> bool:
        """True if there is a deadline or a highest cost, which need bids to be known."""
        return self.limits.deadline is not None or self.limits.max_cost is not None


class Question(NamedTuple):
    """All that one decision depends on; nothing else influences it."""

    criteria: Criteria
    candidates: Sequence[Candidate]  # the clusters that fit, now or later, in any order
    misfits: Mapping[str, tuple[Fit, str]] = NO_MISFITS  # the others: fit and a short reason
    seed: int = 0
    snapshot: int = 0
    now: float = 0.0  # epoch seconds
