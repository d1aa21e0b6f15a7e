"""The stored record of one choice: every cluster, why or why not, the winner; enough to compute it again.

The record is one JSON document, `rainbow.decision/1`. What is said of every candidate lies
in columns (`clusters.name[i]`, `clusters.fit[i]`, `state.columns.nodes_free[i]` ...), what is said
of few in maps by name (`bids`, `records`, `placed`, `notes` ...): a decision over 100 clusters is
built and written in a fraction of a millisecond, and `rows()` turns it back into one row per
cluster for people. In a state, null and absent are the same: not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from rainbow.model.errors import Invalid

SCHEMA = "rainbow.decision/1"
COLUMNS = ("name", "fit", "slots_now", "slots_ever", "state_age", "score", "reason")
ESTIMATE = ("start", "start_p90", "runtime_factor", "cost", "source")


@dataclass(frozen=True, slots=True)
class Chosen:
    """This cluster gets the job."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing now; decide again when something changes. `ever`: a cluster that is registered could run it."""

    reasons: tuple[str, ...]
    ever: bool = True


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing, and the owner asked not to wait."""

    reasons: tuple[str, ...]
    ever: bool = False


Outcome: TypeAlias = Chosen | Wait | Refuse


class Row(NamedTuple):
    """One cluster of a decision, as `plan` and `explain` show it."""

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
    estimate: Mapping[str, Any] = {}  # start, start_p90, cost as they were used, with their source
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice. `record` is the JSON document; everything else is read from it."""

    record: Mapping[str, Any]

    @property
    def outcome(self) -> Outcome:
        """Chosen, Wait or Refuse."""
        outcome = self.record["outcome"]
        if outcome["kind"] == "chosen":
            return Chosen(outcome["cluster"])
        kind = Wait if outcome["kind"] == "wait" else Refuse
        return kind(tuple(outcome["reasons"]), outcome["ever"])

    @property
    def winner(self) -> str | None:
        """The cluster that was chosen, if one was."""
        cluster: str | None = self.record["outcome"].get("cluster")
        return cluster

    @property
    def ranked(self) -> tuple[str, ...]:
        """Every cluster that is left, best first; what `satisfy_only` answers."""
        return tuple(self.record["ranked"])

    @property
    def policy(self) -> str:
        """The policy that chose."""
        name: str = self.record["policy"]["name"]
        return name

    def rows(self) -> Iterator[Row]:
        """One row per cluster: the ranking in order, then who was dropped, then who does not fit."""
        record, columns, states = self.record, self.record["clusters"], states_of(self.record)
        rank = {name: place for place, name in enumerate(record["ranked"])}
        at = sorted(range(len(columns["name"])), key=lambda i: rank.get(columns["name"][i], len(rank)))
        for i in at:
            name = columns["name"][i]
            yield Row(
                **{column: columns[column][i] for column in COLUMNS},
                rank=rank.get(name),
                state=states[i],
                terms=record["terms"].get(name, {}),
                bid=record["bids"].get(name),
                estimate=dict(zip(ESTIMATE, record["estimates"].get(name, ()), strict=False)),
                notes=tuple(record["notes"].get(name, ())),
            )
        for name, (fit, reason) in record["misfits"].items():
            yield Row(name=name, fit=fit, reason=reason)

    def to_json(self) -> str:
        """The record as compact JSON; raise Invalid if a state, a parameter or a term is no finite plain value."""
        try:
            return json.dumps(self.record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        except (ValueError, TypeError) as error:
            raise Invalid(f"a decision's record holds texts, finite numbers and booleans only: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read a stored record; raise Invalid if it is not one."""
        try:
            record = json.loads(text)
        except ValueError as error:
            raise Invalid(f"a decision's record is JSON: {error}") from None
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            found = record.get("schema") if isinstance(record, dict) else type(record).__name__
            raise Invalid(f"a decision's record has the schema {SCHEMA}, not {found!r}")
        missing = sorted(_PARTS - record.keys())
        if missing:
            raise Invalid(f"a decision's record lacks {', '.join(missing)}")
        return cls(record)


def states_of(record: Mapping[str, Any]) -> list[dict[str, object]]:
    """The state of each cluster as it was reported, in the order of `clusters.name`."""
    state = record["state"]
    states: list[dict[str, object]] = [{} for _ in record["clusters"]["name"]]
    for key, column in state["columns"].items():
        for i, value in enumerate(column):
            if value is not None:
                states[i][key] = value
    for i, some in state["rare"].items():
        states[int(i)].update(some)
    return states


_PARTS = frozenset(
    {"schema", "snapshot", "at", "seed", "request", "policy", "limits", "stale_after", "clusters", "state"}
    | {"placed", "bids", "no_bids", "records", "terms", "estimates", "notes", "misfits", "outcome", "ranked"}
)
