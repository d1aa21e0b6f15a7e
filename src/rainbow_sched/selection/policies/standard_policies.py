"""The policies without expressions: by chance, by name, and by slots, reported numbers or predictions.

`random`, `first`, `least`, `spread` and `pack` rank clusters where the job fits now before those where it fits later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from rainbow_sched.model.bid import BidSource
from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.bid_scores import estimate
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies.contract import Policy, PolicyFactory, Ranked, Ranking

NOT_NOW = "; fits only later"
DEFAULT_WEIGHTS = "0.6*start + 0.3*cost + 0.1*queue"
MAX_TERMS = 16  # of the weights; bounds the time of one decision
SOURCE_TEXTS = {
    BidSource.AGENT: "as it bids",
    BidSource.HISTORY: "as it did before; no bid",
    BidSource.STATE: "by its state; no bid",
}
_TERM = re.compile(r"\s*([+-])?\s*(?:(\d+(?:\.\d*)?|\.\d+)\s*\*\s*)?([A-Za-z_][\w.]*)\s*")


def number(state: Mapping[str, object], key: str) -> float | None:
    """Return the number under `key`, or None."""
    value = state.get(key)
    if value.__class__ is float or value.__class__ is int:
        return value
    return None


def _suffix(candidate: Candidate) -> str:
    return "" if candidate.fit is Fit.NOW else NOT_NOW


def without_options(name: str, policy: Policy) -> PolicyFactory:
    """Return a factory of `policy`, which has no options; it refuses any."""

    def build(options: Mapping[str, str]) -> Policy:
        take(name, options, {})
        return policy

    return build


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Choose a uniformly random cluster."""

    wants_bids: bool = False
    wants_slots: bool = False

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
        rows = []
        for c in candidates:
            value = number(c.state, self.key)
            rows.append((value is None, c.fit is not Fit.NOW, 0.0 if value is None else value, c.name))
        ranked = []
        for unknown, later, value, name in sorted(rows):
            shown = "is not known" if unknown else f"{value:g}"
            reason = f"{self.key} {shown}{NOT_NOW if later else ''}"
            ranked.append(Ranked(name, None if unknown else value, reason))
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
            [Ranked(c.name, _share(c), f"{c.slots_now} of {c.slots_ever} slots free{_suffix(c)}") for c in order], {}
        )


def _share(candidate: Candidate) -> float:
    return candidate.slots_now / candidate.slots_ever if candidate.slots_ever > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ByPrediction:
    """Prefer the cluster that would start the job first (`start`), or where the whole job would cost least (`cost`)."""

    what: Literal["start", "cost"]
    wants_bids: bool = True
    wants_slots: bool = False

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by the predicted value, then the other one, then name; an unknown value comes last."""
        rows = []
        for c in candidates:
            e = estimate(c, demand)
            first, second = (e.start, e.cost) if self.what == "start" else (e.cost, e.start)
            rows.append((first is None, first or 0.0, second is None, second or 0.0, c.name, e.source))
        ranked = []
        for missing, value, _, _, name, source in sorted(rows):
            if missing:
                ranked.append(Ranked(name, None, f"{self.what} is not known"))
                continue
            would = f"would start in {value:.0f} s" if self.what == "start" else f"would cost {value:.2f}"
            ranked.append(Ranked(name, value, f"{would}, {SOURCE_TEXTS[source]}", {self.what: value}))
        return Ranking(ranked, {})


@dataclass(frozen=True, slots=True)
class Weighted:
    """Rank by 1 minus a weighted sum, in which each term is scaled to 0 (best candidate) … 1 (worst)."""

    terms: tuple[tuple[str, float], ...]
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Weighted:
        """Read `weights`: "0.6*start + 0.3*cost + 0.1*queue"; other names are state keys; minus: more is better."""
        return cls(_read_weights(take("weighted", options, {"weights": DEFAULT_WEIGHTS})["weights"]))

    @property
    def wants_bids(self) -> bool:
        """True if a term needs bids."""
        return any(name in ("start", "cost") for name, _ in self.terms)

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by score, then name; an unknown value counts as the worst."""
        values = _values([name for name, _ in self.terms], candidates, demand)
        shares = {name: _normalised(values[name], weight < 0) for name, weight in self.terms}
        total = sum(abs(weight) for _, weight in self.terms)
        rows = []
        for i, c in enumerate(candidates):
            terms = {name: abs(weight) / total * shares[name][i] for name, weight in self.terms}
            rows.append((1.0 - sum(terms.values()), c.name, terms, i))
        rows.sort(key=lambda row: (-row[0], row[1]))
        return Ranking(
            [Ranked(name, score, self._reason(values, i, score), terms) for score, name, terms, i in rows], {}
        )

    def _reason(self, values: Mapping[str, Sequence[float | None]], i: int, score: float) -> str:
        parts = (
            f"{name} is not known" if values[name][i] is None else f"{name} {values[name][i]:g}"
            for name, _ in self.terms
        )
        return f"score {score:.3f}: {', '.join(parts)}"


def _values(names: Sequence[str], candidates: Sequence[Candidate], demand: Demand) -> dict[str, list[float | None]]:
    """Return the values of each term for all candidates."""
    predicted = [estimate(c, demand) for c in candidates] if "start" in names or "cost" in names else []
    values: dict[str, list[float | None]] = {}
    for name in names:
        if name in ("start", "cost"):
            values[name] = [e.start if name == "start" else e.cost for e in predicted]
        else:
            key = "queue_depth" if name == "queue" else name
            values[name] = [number(c.state, key) for c in candidates]
    return values


def _normalised(values: Sequence[float | None], more_is_better: bool) -> list[float]:
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    width = (high / 2 - low / 2) * 2 if high > low else 0.0
    shares = []
    for value in values:
        share = 1.0 if value is None else (value - low) / width if 0 < width < float("inf") else 0.0
        shares.append(1.0 - share if more_is_better and value is not None else share)
    return shares


def _read_weights(text: str) -> tuple[tuple[str, float], ...]:
    terms: dict[str, float] = {}
    at = 0
    while at < len(text) or not terms:
        term = _TERM.match(text, at)
        if term is None or (terms and not term.group(1)):
            raise Invalid(
                f"cannot read the weights from character {at + 1}; an example is {DEFAULT_WEIGHTS!r}\n"
                f"  {text[:200]}\n  {' ' * min(at, 200)}^"
            )
        sign, weight, name = term.groups()
        if name in terms or len(terms) == MAX_TERMS:
            raise Invalid(f"weights have at most {MAX_TERMS} terms, each once; remove {name!r}")
        terms[name] = (-1.0 if sign == "-" else 1.0) * (1.0 if weight is None else float(weight))
        at = term.end()
    if not 0 < sum(abs(weight) for weight in terms.values()) < 1e6:
        raise Invalid("the sum of the weights must be more than 0 and less than a million")
    return tuple(terms.items())
