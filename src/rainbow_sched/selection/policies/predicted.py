"""Policies that choose by what is predicted: start (the earliest), cost (the cheapest), weighted (a mixture)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rainbow_sched.model.bid import BidSource
from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.selection.bid_scores import Estimate, estimate
from rainbow_sched.selection.options import take
from rainbow_sched.selection.policies.contract import Ranked, Ranking
from rainbow_sched.selection.policies.simple import number

DEFAULT_WEIGHTS = "0.6*start + 0.3*cost + 0.1*queue"
MAX_TERMS = 16
SAID_BY = {
    BidSource.AGENT: "as it bids",
    BidSource.HISTORY: "as it did before; no bid",
    BidSource.STATE: "by its state; no bid",
}
_TERM = re.compile(r"\s*([+-])?\s*(?:(\d+(?:\.\d*)?|\.\d+)\s*\*\s*)?([A-Za-z_][\w.]*)\s*")


@dataclass(frozen=True, slots=True)
class Earliest:
    """The one that would start the job first."""

    wants_bids: bool = True
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Earliest:
        """It takes no options."""
        take("start", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """By predicted start, then by cost, then by name; an unknown start comes last."""
        return _by(candidates, demand, "start")


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The one where the whole job would cost least."""

    wants_bids: bool = True
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Cheapest:
        """It takes no options."""
        take("cost", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """By predicted cost, then by start, then by name; an unknown cost comes last."""
        return _by(candidates, demand, "cost")


def _by(candidates: Sequence[Candidate], demand: Demand, what: str) -> Ranking:
    rows = []
    for c in candidates:
        e = estimate(c, demand)
        first, second = (e.start, e.cost) if what == "start" else (e.cost, e.start)
        rows.append((first is None, first or 0.0, second is None, second or 0.0, c.name, e))
    rows.sort(key=lambda row: row[:5])
    ranked = []
    for missing, value, _, _, name, e in rows:
        reason = f"{what} is not known" if missing else _sentence(what, e)
        ranked.append(Ranked(name, None if missing else value, reason, None if missing else {what: value}))
    return Ranking(ranked, {})


def _sentence(what: str, e: Estimate) -> str:
    if what == "start":
        return f"would start in {e.start:.0f} s, {SAID_BY[e.source]}"
    return f"would cost {e.cost:.2f}, {SAID_BY[e.source]}"


@dataclass(frozen=True, slots=True)
class Weighted:
    """A mixture: each term goes from 0 (best here) to 1 (worst here), weighed and added; the score is 1 less that."""

    terms: tuple[tuple[str, float], ...]
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Weighted:
        """`weights`: "0.6*start + 0.3*cost + 0.1*queue"; other names are state keys, a minus means more is better."""
        return cls(_read_weights(take("weighted", options, {"weights": DEFAULT_WEIGHTS})["weights"]))

    @property
    def wants_bids(self) -> bool:
        """Only if it weighs something that is bid for."""
        return any(name in ("start", "cost") for name, _ in self.terms)

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """The highest score first, ties by name; a value that is not known counts as the worst."""
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
    """For each term its value for every candidate."""
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
        found = _TERM.match(text, at)
        if found is None or (terms and not found.group(1)):
            raise Invalid(
                f"weights look like {DEFAULT_WEIGHTS!r}; cannot read them from character {at + 1}\n"
                f"  {text[:200]}\n  {' ' * min(at, 200)}^"
            )
        sign, weight, name = found.groups()
        if name in terms or len(terms) == MAX_TERMS:
            raise Invalid(f"weights name each term once and at most {MAX_TERMS} terms; {name!r} is one too many")
        terms[name] = (-1.0 if sign == "-" else 1.0) * (1.0 if weight is None else float(weight))
        at = found.end()
    if not 0 < sum(abs(weight) for weight in terms.values()) < 1e6:
        raise Invalid("the weights add up to more than 0 and less than a million")
    return tuple(terms.items())
