"""Policies that use fit, free slots or one reported number: random, first, least, spread, pack.

All rank clusters where the job fits now before those where it fits later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies.contract import Ranked, Ranking

NOT_NOW = "; fits only later"


def number(state: Mapping[str, object], key: str) -> float | None:
    """Return the number under `key`, or None."""
    value = state.get(key)
    if value.__class__ is float or value.__class__ is int:
        return value
    return None


def _suffix(candidate: Candidate) -> str:
    return "" if candidate.fit is Fit.NOW else NOT_NOW


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Choose a uniformly random cluster."""

    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> AtRandom:
        """Refuse any option."""
        take("random", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Draw the first; the others follow in order of name, wrapping around.

        Every cluster is equally likely at every rank, and one number records the whole order.
        """
        reason = f"drawn at random among {len(candidates)}"
        if CandidateSet.of(candidates).all_now:
            return Ranking.rotated(candidates, int(rng.random() * len(candidates)), reason)
        ranked: list[Ranked] = []
        for later, why in ((False, reason), (True, reason + NOT_NOW)):
            names = [candidate.name for candidate in candidates if (candidate.fit is not Fit.NOW) is later]
            first = int(rng.random() * len(names))
            ranked += [Ranked(name, None, why) for name in (*names[first:], *names[:first])]
        return Ranking(ranked, {})


@dataclass(frozen=True, slots=True)
class First:
    """Choose the first cluster in the configured order, or else by name."""

    order: tuple[str, ...] = ()
    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> First:
        """Read `order`: names separated by commas; other clusters follow by name."""
        text = take("first", options, {"order": ""})["order"]
        return cls(tuple(name.strip() for name in text.split(",") if name.strip()))

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by the configured order, then name."""
        place = {name: i for i, name in enumerate(self.order)}
        last = len(place)
        order = sorted(candidates, key=lambda c: (c.fit is not Fit.NOW, place.get(c.name, last), c.name))
        order_text = "by name" if not place else "in the given order"
        return Ranking(
            [Ranked(c.name, float(i), f"number {i + 1} {order_text}{_suffix(c)}") for i, c in enumerate(order)], {}
        )


@dataclass(frozen=True, slots=True)
class Least:
    """Choose the cluster that reports the smallest value of one state key."""

    key: str = "queue_depth"
    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Least:
        """Read `key`: the state key to compare, by default `queue_depth`."""
        key = take("least", options, {"key": "queue_depth"})["key"].strip()
        if not key:
            raise Invalid("policy 'least': option 'key' must name a state key, such as queue_depth")
        return cls(key)

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by the value, then name; clusters that do not report the key come last."""
        known: list[tuple[bool, float, str]] = []
        unknown: list[tuple[bool, str]] = []
        for c in candidates:
            value = number(c.state, self.key)
            if value is None:
                unknown.append((c.fit is not Fit.NOW, c.name))
            else:
                known.append((c.fit is not Fit.NOW, value, c.name))
        suffixes = {False: "", True: NOT_NOW}
        ranked = [Ranked(name, x, f"{self.key} {x:g}{suffixes[later]}") for later, x, name in sorted(known)]
        ranked += [Ranked(name, None, f"{self.key} is not known{suffixes[later]}") for later, name in sorted(unknown)]
        return Ranking(ranked, {})


@dataclass(frozen=True, slots=True)
class ByFreeSlots:
    """Rank by the share of free slots: most first (`spread`) or least first (`pack`)."""

    emptiest: bool
    wants_bids: bool = False

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by slots_now divided by slots_ever, then name."""
        sign = -1.0 if self.emptiest else 1.0
        order = sorted(candidates, key=lambda c: (c.fit is not Fit.NOW, sign * _share(c), c.name))
        return Ranking(
            [Ranked(c.name, _share(c), f"{c.slots_now} of {c.slots_ever} slots free{_suffix(c)}") for c in order],
            {},
        )


def spread(options: Mapping[str, str]) -> ByFreeSlots:
    """Build the policy that prefers the emptiest cluster."""
    take("spread", options, {})
    return ByFreeSlots(emptiest=True)


def pack(options: Mapping[str, str]) -> ByFreeSlots:
    """Build the policy that prefers the fullest cluster that still fits, to keep large free blocks."""
    take("pack", options, {})
    return ByFreeSlots(emptiest=False)


def _share(candidate: Candidate) -> float:
    return candidate.slots_now / candidate.slots_ever if candidate.slots_ever > 0 else 0.0
