"""The interface of a policy: it turns candidates into a ranking with reasons.

A policy is built from its options for one decision and holds no state. It must be pure: the same
candidates, demand and random numbers give the same ranking, so that stored decisions can be
replayed. The contract suite is `tests/contract/policies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import RainbowError


class UnknownPolicy(RainbowError):
    """No policy has this name, or its plugin failed to load."""


class PolicyError(RainbowError):
    """A policy failed or broke its contract: a cluster missing or unknown, or a score that is not finite."""


class Ranked(NamedTuple):
    """One ranked cluster with its score, the reason, and the terms of the score."""

    name: str
    score: float | None  # None: the policy has no score, or it is unknown for this cluster
    reason: str
    terms: Mapping[str, float] | None = None


class Ranking:
    """The clusters in order, best first, and the clusters that the policy drops, each with its reason."""

    __slots__ = ("_names", "_ranked", "dropped", "first", "given", "reason")

    def __init__(self, ranked: list[Ranked], dropped: Mapping[str, str]) -> None:
        self._ranked: list[Ranked] | None = ranked
        self._names: list[str] | None = None
        self.dropped = dropped
        self.reason: str | None = None  # the common reason of all, if there are no scores
        self.given: Sequence[Candidate] = ()  # set by `rotated`: these, starting at index `first`
        self.first = 0

    @classmethod
    def rotated(cls, given: Sequence[Candidate], first: int, reason: str) -> Ranking:
        """Rank all in the given order, starting at index `first` and wrapping around; no cost per cluster."""
        ranking = cls([], {})
        ranking._ranked, ranking.reason, ranking.given = None, reason, given
        ranking.first = first % len(given) if given else 0
        return ranking

    @property
    def best(self) -> str | None:
        """The name of the best cluster, if any."""
        if self.given:
            return self.given[self.first].name
        return self.names[0] if self.names else None

    @property
    def names(self) -> list[str]:
        """The names, best first."""
        if self._names is None:
            if self._ranked is not None:
                self._names = [entry.name for entry in self._ranked]
            else:
                rotated = (*self.given[self.first :], *self.given[: self.first])
                self._names = [candidate.name for candidate in rotated]
        return self._names

    @property
    def ranked(self) -> list[Ranked]:
        """The entries, best first."""
        if self._ranked is None:
            self._ranked = [Ranked(name, None, self.reason or "") for name in self.names]
        return self._ranked


class Policy(Protocol):
    """Ranks the clusters that fit.

    Counting slots costs more than the rest of a decision: a policy that does not use slot counts sets
    `wants_slots = False` and sees zeros. A policy that uses `Candidate.state_age` sets
    `wants_ages = True`; otherwise the age is None.
    """

    @property
    def wants_bids(self) -> bool:
        """True if the policy uses bids."""

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank or drop each of `candidates` (sorted by name), with a reason."""


class PolicyFactory(Protocol):
    """Builds a policy from its options; raises `Invalid` for an unknown option."""

    def __call__(self, options: Mapping[str, str]) -> Policy: ...
