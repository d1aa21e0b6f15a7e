"""The stored record of one scheduling decision, with everything needed to replay it.

The record is one JSON document, `rainbow.decision/2`, in three parts:

- The *fleet part* holds the facts about every cluster in columns (`clusters.name[i]`, `clusters.fit[i]`,
  `state.columns.nodes_free[i]` ...). Decisions over an unchanged fleet share it, so that a decision
  over 100 clusters is cheap and a million jobs do not fill a disk.
- The *criteria part* holds the request, the policy and the limits. It is encoded once for equal criteria and
  stored with each decision.
- The decision's *own part* holds the ranking and the outcome. A cluster is its index in the columns, a rotated
  order is `{"from": index}`, clusters excluded by the limits and the fit alone are left out, and so are
  empty values. In a state, null and absent both mean unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from rainbow_sched.model.candidate import AdjustedCount, OwnerLimits, PlacedSinceReport, counted
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit

SCHEMA = "rainbow.decision/2"
COLUMNS = ("fit", "slots_now", "slots_ever")
ESTIMATE = ("start", "start_p90", "runtime_factor", "cost", "source")
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Chosen:
    """The job goes to this cluster."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Wait:
    """No cluster now; decide again after a change. `ever`: a registered cluster could run the job."""

    reasons: tuple[str, ...]
    ever: bool = True


@dataclass(frozen=True, slots=True)
class Refuse:
    """No cluster, and the owner asked not to wait."""

    reasons: tuple[str, ...]
    ever: bool = False


DecisionOutcome: TypeAlias = Chosen | Wait | Refuse


class Row(NamedTuple):
    """One cluster in a decision, as `plan` and `explain` show it."""

    name: str
    fit: str
    reason: str
    rank: int | None = None  # 0 is the winner; None: not in the ranking
    score: float | None = None
    terms: Mapping[str, float] = {}
    slots_now: int = 0
    slots_ever: int = 0
    state: Mapping[str, object] = {}
    state_age: float | None = None
    bid: Mapping[str, Any] | None = None
    estimate: Mapping[str, Any] = {}  # the start, start_p90 and cost that the policy used, with their source
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FleetPart:
    """The facts about every cluster; shared by all decisions over an unchanged fleet."""

    text: str  # JSON

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """Return the decoded part."""
        document: Mapping[str, Any] = json.loads(self.text)
        return document

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the clusters that could run the job, in the order of the columns."""
        return tuple(self.document["clusters"]["name"])

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Return the index of each cluster in the columns."""
        return {name: i for i, name in enumerate(self.names)}


@dataclass(frozen=True)
class CriteriaPart:
    """The request, policy and limits; shared by all decisions with equal criteria."""

    document: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """Return the part as JSON."""
        return encoded(self.document)


@dataclass(frozen=True)
class Decision:
    """One decision: the shared parts and its own part."""

    fleet: FleetPart
    criteria: CriteriaPart
    mine: Mapping[str, Any]

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """Return all except the fleet part, with the ranking as indexes."""
        own = {**_EMPTY, **self.criteria.document, **self.mine}
        ranked, dropped = own["ranked"], own["dropped"]
        if isinstance(ranked, Mapping) or len(ranked) + len(dropped) < len(self.fleet.names):
            dropped = own["dropped"] = dict(sorted({**self._excluded(), **dropped}.items()))
        if isinstance(ranked, Mapping):
            left = [i for i, name in enumerate(self.fleet.names) if name not in dropped]
            first = ranked["from"]
            own["ranked"] = [*left[first:], *left[:first]]
        return own

    def _excluded(self) -> dict[str, str]:
        """Return the clusters that the limits and the fit exclude, with the reason; the record does not list them."""
        try:
            limits = limits_of(self.criteria.document["limits"])
            columns = self.fleet.document["clusters"]
            fits = zip(columns["name"], map(Fit, columns["fit"]), strict=True)
            bids = self.mine.get("bids", {})
            return {name: why for name, fit in fits if (why := limits.why_not(name, fit, bid=name in bids))}
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(f"a decision record is damaged: {type(error).__name__} {error}") from None

    @property
    def outcome(self) -> DecisionOutcome:
        """Return the outcome: Chosen, Wait or Refuse."""
        outcome = self.mine["outcome"]
        if outcome["kind"] == "chosen":
            return Chosen(outcome["cluster"])
        kind = Wait if outcome["kind"] == "wait" else Refuse
        return kind(tuple(outcome["reasons"]), outcome["ever"])

    @property
    def winner(self) -> str | None:
        """Return the chosen cluster, or None."""
        cluster: str | None = self.mine["outcome"].get("cluster")
        return cluster

    @property
    def ranked(self) -> tuple[str, ...]:
        """Return the ranked clusters, best first; the answer to `satisfy_only`."""
        names = self.fleet.names
        return tuple(names[i] for i in self.own["ranked"])

    @property
    def policy(self) -> str:
        """Return the name of the policy."""
        name: str = self.own["policy"]["name"]
        return name

    @property
    def record(self) -> dict[str, Any]:
        """Return the whole document, with the ranking by name."""
        return {"schema": SCHEMA, **self.own, "ranked": list(self.ranked), **self.fleet.document}

    def rows(self) -> Iterator[Row]:
        """Return one row per cluster: the ranking in order, then the dropped clusters, then those that do not fit."""
        own, fleet = self.own, self.fleet.document
        ranked, reasons = own["ranked"], own["reasons"]
        for rank, i in enumerate(ranked):
            reason = reasons if isinstance(reasons, str) else reasons[rank]
            yield self._row(i, reason, rank, own["scores"][rank] if own["scores"] else None)
        for name, reason in own["dropped"].items():
            yield self._row(self.fleet.place[name], reason, None, None)
        for name, (fit, reason) in fleet["misfits"].items():
            yield Row(name=name, fit=fit, reason=reason)

    def _row(self, i: int, reason: str, rank: int | None, score: float | None) -> Row:
        own, fleet, name = self.own, self.fleet.document, self.fleet.names[i]
        columns, state = fleet["clusters"], state_of(fleet, i)
        at = columns["at"][i]
        age = None if at is None else round(max(0.0, own["at"] - at), 3)
        stale = at is not None and at < own["at"] - own["stale_after"]
        placed = PlacedSinceReport(*own["placed"].get(name, ()))
        since = () if stale else (_since(key, count) for key, count in counted(state, placed).items())
        return Row(
            name=name,
            reason=reason,
            **{column: columns[column][i] for column in COLUMNS},
            rank=rank,
            score=score,
            state=state,
            state_age=age,
            terms=own["terms"].get(name, {}),
            bid=own["bids"].get(name),
            estimate=dict(zip(ESTIMATE, own["estimates"].get(name, ()), strict=False)),
            notes=(*since, *own["notes"].get(name, ())),
        )

    def to_json(self) -> str:
        """Return the whole document as compact JSON."""
        return encoded(self.record)

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read the result of `to_json`; raise `Invalid`."""
        try:
            record = json.loads(text)
        except ValueError as error:
            raise Invalid(f"a decision record must be JSON: {error}") from None
        if not isinstance(record, dict):
            raise Invalid(f"a decision record must be an object of schema {SCHEMA}, not {type(record).__name__!r}")
        return cls.from_record(record)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Decision:
        """Read a whole document; raise `Invalid`."""
        if record.get("schema") != SCHEMA:
            raise Invalid(f"a decision record must have the schema {SCHEMA}, not {record.get('schema')!r}")
        missing = sorted((_OWN | set(FLEET_KEYS)) - record.keys())
        if missing:
            raise Invalid(f"a decision record lacks {', '.join(missing)}")
        fleet = FleetPart(encoded({key: record[key] for key in FLEET_KEYS}))
        criteria = {key: record[key] for key in CRITERIA_KEYS}
        own = {key: value for key, value in record.items() if key in _OWN and key not in criteria}
        try:
            own["ranked"] = [fleet.place[name] for name in record["ranked"]]
        except (KeyError, TypeError):
            raise Invalid("a decision record is damaged: its ranking names unknown clusters") from None
        return cls(fleet, CriteriaPart(criteria), own)


class StoredDecision(NamedTuple):
    """A decision as it is kept: what was asked with its own part, and the part that it shares with others."""

    own: str
    fleet: str

    @classmethod
    def of(cls, decision: Decision) -> StoredDecision:
        """Encode a decision; raise `Invalid` if a parameter or a term is not a finite plain value."""
        return cls(f"{decision.criteria.text[:-1]},{encoded(decision.mine)[1:]}", decision.fleet.text)

    def decision(self) -> Decision:
        """Decode the decision; raise `Invalid` if it is damaged or from an older version."""
        try:
            own = json.loads(self.own)
            criteria = CriteriaPart({key: own.pop(key) for key in CRITERIA_KEYS})
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise Invalid(f"a decision record is damaged: {type(error).__name__} {error}") from None
        return Decision(FleetPart(self.fleet), criteria, own)


def encoded(value: Mapping[str, Any]) -> str:
    """Encode a part as compact JSON; raise `Invalid` if a state, parameter or term is not a finite plain value."""
    try:
        return _ENCODE(value)
    except (ValueError, TypeError) as error:
        raise Invalid(f"a decision record must hold only texts, finite numbers and booleans: {error}") from None


def limits_of(raw: Mapping[str, Any]) -> OwnerLimits:
    """Read the owner's limits from the record."""
    return OwnerLimits(**{**raw, "only": frozenset(raw["only"]), "never": frozenset(raw["never"])})


def _since(key: str, count: AdjustedCount) -> str:
    return f"{key} {count.now:g}: {count.reported:g} reported, {count.placed} placed since"


def state_of(fleet: Mapping[str, Any], i: int) -> dict[str, object]:
    """Return the reported state of one cluster by its index in the columns."""
    state = fleet["state"]
    values = {key: column[i] for key, column in state["columns"].items() if column[i] is not None}
    return {**values, **state["rare"].get(str(i), {})}


FLEET_KEYS = ("clusters", "state", "records", "misfits")
CRITERIA_KEYS = ("request", "policy", "limits", "stale_after")
_EMPTY: Mapping[str, Any] = {
    "scores": [],
    "dropped": {},
    "terms": {},
    "placed": {},
    "bids": {},
    "no_bids": {},
    "estimates": {},
    "notes": {},
}
_OWN = frozenset({"snapshot", "at", "seed", "outcome", "ranked", "reasons", *CRITERIA_KEYS, *_EMPTY})
