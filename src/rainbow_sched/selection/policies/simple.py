"""Policies that look at fit, room and one number: random, first, least, spread, pack.

All put the clusters where the job fits now before those where it fits later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.candidate_set import CandidateSet
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies.contract import Ranked, Ranking

NOT_NOW = "; fits only later"


def number(state: Mapping[str, object], key: str) -> float | None:
    """The number under `key`, or None if there is none."""
    value = state.get(key)
    if value.__class__ is float or value.__class__ is int:
        return value
    return None


def _suffix(candidate: Candidate) -> str:
    return "" if candidate.fit is Fit.NOW else NOT_NOW


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Any of them, each as likely as the others."""

    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> AtRandom:
        """It takes no options."""
        take("random", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Draw the first; the others follow in the order of their names, round to it.

        So each is as likely as any other in every place, and the order is as short to write as the draw.
        """
        reason = f"drawn at random among {len(candidates)}"
        if CandidateSet.of(candidates).all_now:
            return Ranking.around(candidates, int(rng.random() * len(candidates)), reason)
        ranked: list[Ranked] = []
        for later, why in ((False, reason), (True, reason + NOT_NOW)):
            some = [candidate.name for candidate in candidates if (candidate.fit is not Fit.NOW) is later]
            first = int(rng.random() * len(some))
            ranked += [Ranked(name, None, why) for name in (*some[first:], *some[:first])]
        return Ranking(ranked, {})


@dataclass(frozen=True, slots=True)
class First:
    """The first by name, or by the order that the option gives."""

    order: tuple[str, ...] = ()
    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> First:
        """`order`: names between commas; clusters that it does not name come after, by name."""
        text = take("first", options, {"order": ""})["order"]
        return cls(tuple(name.strip() for name in text.split(",") if name.strip()))

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """By place in the order, then by name."""
        place = {name: i for i, name in enumerate(self.order)}
        last = len(place)
        order = sorted(candidates, key=lambda c: (c.fit is not Fit.NOW, place.get(c.name, last), c.name))
        said = "by name" if not place else "in the given order"
        return Ranking(
            [Ranked(c.name, float(i), f"number {i + 1} {said}{_suffix(c)}") for i, c in enumerate(order)], {}
        )


@dataclass(frozen=True, slots=True)
class Least:
    """The one with the least of some number that clusters report."""

    key: str = "queue_depth"
    wants_bids: bool = False
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Least:
        """`key`: the state key to compare, `queue_depth` unless told."""
        key = take("least", options, {"key": "queue_depth"})["key"].strip()
        if not key:
            raise Invalid("policy 'least': option 'key' names a state key, such as queue_depth")
        return cls(key)

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """The least first; clusters that do not report the key come last."""
        return by_number(candidates, lambda c: number(c.state, self.key), self.key)


@dataclass(frozen=True, slots=True)
class ByRoom:
    """By the share of its slots that is free now: the most (`spread`) or the least (`pack`) first."""

    emptiest: bool
    wants_bids: bool = False

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """The share is slots_now of slots_ever, as matching counted them."""
        sign = -1.0 if self.emptiest else 1.0
        order = sorted(candidates, key=lambda c: (c.fit is not Fit.NOW, sign * _share(c), c.name))
        return Ranking(
            [Ranked(c.name, _share(c), f"{c.slots_now} of {c.slots_ever} slots free{_suffix(c)}") for c in order],
            {},
        )


def spread(options: Mapping[str, str]) -> ByRoom:
    """The emptiest cluster first, so that work spreads out."""
    take("spread", options, {})
    return ByRoom(emptiest=True)


def pack(options: Mapping[str, str]) -> ByRoom:
    """The fullest cluster that still fits first, so that large holes stay whole."""
    take("pack", options, {})
    return ByRoom(emptiest=False)


def _share(candidate: Candidate) -> float:
    return candidate.slots_now / candidate.slots_ever if candidate.slots_ever > 0 else 0.0


def by_number(candidates: Sequence[Candidate], value: Callable[[Candidate], float | None], what: str) -> Ranking:
    """The smallest value first, ties by name; what has none comes last and says so."""
    known: list[tuple[bool, float, str, Candidate]] = []
    unknown: list[tuple[bool, float, str, Candidate]] = []
    for c in candidates:
        found = value(c)
        if found is None:
            unknown.append((c.fit is not Fit.NOW, 0.0, c.name, c))
        else:
            known.append((c.fit is not Fit.NOW, found, c.name, c))
    known.sort(key=lambda item: item[:3])
    unknown.sort(key=lambda item: item[:3])
    ranked = [Ranked(name, found, f"{what} {found:g}{NOT_NOW if later else ''}") for later, found, name, _ in known]
    ranked += [Ranked(name, None, f"{what} is not known{NOT_NOW if later else ''}") for later, _, name, _ in unknown]
    return Ranking(ranked, {})
