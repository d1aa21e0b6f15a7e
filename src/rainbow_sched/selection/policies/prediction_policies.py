"""Policies that choose by prediction: `start` (earliest), `cost` (cheapest) and `weighted` (a weighted sum)."""

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
from rainbow_sched.selection.policies.state_policies import number

DEFAULT_WEIGHTS = "0.6*start + 0.3*cost + 0.1*queue"
MAX_TERMS = 16
SOURCE_TEXTS = {
    BidSource.AGENT: "as it bids",
    BidSource.HISTORY: "as it did before; no bid",
    BidSource.STATE: "by its state; no bid",
}
_TERM = re.compile(r"\s*([+-])?\s*(?:(\d+(?:\.\d*)?|\.\d+)\s*\*\s*)?([A-Za-z_][\w.]*)\s*")


@dataclass(frozen=True, slots=True)
class Earliest:
    """Prefer the cluster that would start the job first."""

    wants_bids: bool = True
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Earliest:
        """Refuse any option."""
        take("start", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by predicted start, then cost, then name; an unknown start comes last."""
        return _rank_by(candidates, demand, "start")


@dataclass(frozen=True, slots=True)
class Cheapest:
    """Prefer the cluster where the whole job would cost least."""

    wants_bids: bool = True
    wants_slots: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Cheapest:
        """Refuse any option."""
        take("cost", options, {})
        return cls()

    def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
        """Rank by predicted cost, then start, then name; an unknown cost comes last."""
        return _rank_by(candidates, demand, "cost")


def _rank_by(candidates: Sequence[Candidate], demand: Demand, what: str) -> Ranking:
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
        return f"would start in {e.start:.0f} s, {SOURCE_TEXTS[e.source]}"
    return f"would cost {e.cost:.2f}, {SOURCE_TEXTS[e.source]}"


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
