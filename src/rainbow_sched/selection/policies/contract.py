"""What a policy is: candidates go in, a ranking with reasons comes out; anyone can add one.

A policy is built for one decision from its own options and keeps nothing afterwards. It
must be pure: the same candidates, demand and random numbers give the same ranking, or a
stored decision could not be replayed. The contract suite is `tests/contract/policies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import RainbowError


class UnknownPolicy(RainbowError):
    """There is no policy of this name here, or its plugin failed to load."""


class PolicyError(RainbowError):
    """A policy failed or broke its contract: it lost a cluster, made one up or gave a score that is no number."""


class Ranked(NamedTuple):
    """One cluster in its place: the number it was ranked by, why, and the numbers behind that one."""

    name: str
    score: float | None  # None: there is no such number, or it is not known here
    reason: str
    terms: Mapping[str, float] | None = None


class Ranking:
    """The clusters in order, best first, and the ones that this policy leaves out, each with its reason."""

    __slots__ = ("_names", "_ranked", "dropped", "first", "given", "reason")

    def __init__(self, ranked: list[Ranked], dropped: Mapping[str, str]) -> None:
        self._ranked: list[Ranked] | None = ranked
        self._names: list[str] | None = None
        self.dropped = dropped
        self.reason: str | None = None  # the one reason of all, if there are no scores and no other reasons
        self.given: Sequence[Candidate] = ()  # with `first`: all of these, from that one on and round to it
        self.first = 0

    @classmethod
    def around(cls, given: Sequence[Candidate], first: int, reason: str) -> Ranking:
        """All as they were given, from number `first` on and round to the one before it: costs nothing per cluster."""
        made = cls([], {})
        made._ranked, made.reason, made.given = None, reason, given
        made.first = first % len(given) if given else 0
        return made

    @property
    def best(self) -> str | None:
        """The first in order."""
        if self.given:
            return self.given[self.first].name
        return self.names[0] if self.names else None

    @property
    def names(self) -> list[str]:
        """Their names in order."""
        if self._names is None:
            if self._ranked is not None:
                self._names = [entry.name for entry in self._ranked]
            else:
                around = (*self.given[self.first :], *self.given[: self.first])
                self._names = [candidate.name for candidate in around]
        return self._names

    @property
    def ranked(self) -> list[Ranked]:
        """Each cluster in its place."""
        if self._ranked is None:
            self._ranked = [Ranked(name, None, self.reason or "") for name in self.names]
        return self._ranked


class Policy(Protocol):
    """How to choose among the clusters that fit.

    Counting how many slots would fit costs more than the rest of a decision; a policy that does
    not look at them says so with `wants_slots = False`, and finds zeros.

    One that looks at `Candidate.state_age` says so with a true `wants_ages`; else it is None.
    """

    @property
    def wants_bids(self) -> bool:
        """True if the clusters should be asked before this policy chooses."""

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Order `candidates` (sorted by name); each is either ranked or dropped, with a reason."""


class PolicyFactory(Protocol):
    """Builds a policy from its options; raises `Invalid` for an option it does not know."""

    def __call__(self, options: Mapping[str, str]) -> Policy: ...
