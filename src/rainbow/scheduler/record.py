"""Write a decision as one JSON document of columns, and read the question back out of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from rainbow.model.bid import NO_RECORD, Bid, BidSource, TrackRecord
from rainbow.model.candidate import NOTHING_PLACED, Candidate, Demand, Limits, Placed
from rainbow.model.decision import SCHEMA, Chosen, Outcome, Wait, states_of
from rainbow.model.match import Fit
from rainbow.model.request import Request
from rainbow.scheduler.eligible import Field
from rainbow.scheduler.policies import Ranking
from rainbow.scheduler.question import Question
from rainbow.scheduler.scoring import Estimate


def request_hash(request: Request) -> str:
    """The same for requests that ask for the same, whatever the order of their maps."""
    maps = (request.parameters, request.options, request.environment)
    plain = (request.resources_only(), request.duration, request.tasks, [sorted(m.items()) for m in maps])
    return hashlib.sha256(repr(plain).encode()).hexdigest()


def write_record(
    question: Question, policy: tuple[str, Mapping[str, str]], field: Field, ranking: Ranking, outcome: Outcome
) -> dict[str, Any]:
    """The whole record; see `model/decision.py` for its shape."""
    given = field.given
    return {
        "schema": SCHEMA,
        "snapshot": question.snapshot,
        "at": question.now,
        "seed": question.seed,
        "request": _request(question.request_hash, question.demand),
        "policy": {
            "name": policy[0],
            "options": dict(policy[1]),
            "configured": question.policy,
            "configured_options": dict(question.options),
        },
        "limits": _limits(question.limits),
        "stale_after": question.stale_after,
        "outcome": _outcome(outcome),
        "ranked": [entry.name for entry in ranking.ranked],
        "clusters": _columns(field, ranking),
        "state": _state_columns([c.state for c in given]),
        "terms": {entry.name: entry.terms for entry in ranking.ranked if entry.terms},
        "placed": {c.name: list(c.placed) for c in given if any(c.placed)},
        "bids": {c.name: _bid(c.bid) for c in given if c.bid is not None},
        "no_bids": {c.name: c.no_bid for c in given if c.no_bid},
        "records": {c.name: c.record.to_mapping() for c in given if c.record is not NO_RECORD},
        "estimates": {name: _estimate(estimate) for name, estimate in field.estimates.items()},
        "notes": field.notes,
        "misfits": {name: [fit.value, why] for name, (fit, why) in question.misfits.items()},
    }


def _request(hash: str, demand: Demand) -> dict[str, Any]:
    return {
        "hash": hash,
        "name": demand.name,
        "nodes": demand.nodes,
        "cores": demand.cores,
        "duration": demand.duration,
        "parameters": dict(demand.parameters),
        "options": dict(demand.options),
    }


def _columns(field: Field, ranking: Ranking) -> dict[str, list[Any]]:
    given = field.given
    scores = {entry.name: entry.score for entry in ranking.ranked}
    reasons = {**field.dropped, **ranking.dropped, **{entry.name: entry.reason for entry in ranking.ranked}}
    names = [c.name for c in given]
    return {
        "name": names,
        "fit": [c.fit for c in given],
        "slots_now": [c.slots_now for c in given],
        "slots_ever": [c.slots_ever for c in given],
        "state_age": [c.state_age for c in given],
        "score": [scores.get(name) for name in names],
        "reason": [reasons[name] for name in names],
    }


def _state_columns(states: list[Mapping[str, object]]) -> dict[str, Any]:
    """A column for each key; keys that few clusters report go by cluster number, so that no column is mostly empty."""
    counts = Counter(chain.from_iterable(states))
    enough = len(states) // 2
    columns = {key: [state.get(key) for state in states] for key, count in counts.items() if count > enough}
    rare = counts.keys() - columns.keys()
    if not rare:
        return {"columns": columns, "rare": {}}
    found = {str(i): {k: v for k, v in state.items() if k in rare} for i, state in enumerate(states)}
    return {"columns": columns, "rare": {i: some for i, some in found.items() if some}}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Chosen):
        return {"kind": "chosen", "cluster": outcome.cluster}
    kind = "wait" if isinstance(outcome, Wait) else "refuse"
    return {"kind": kind, "reasons": list(outcome.reasons), "ever": outcome.ever}


def _limits(limits: Limits) -> dict[str, Any]:
    return {
        "deadline": limits.deadline,
        "max_cost": limits.max_cost,
        "only": sorted(limits.only),
        "never": sorted(limits.never),
        "prefer": limits.prefer,
        "later": limits.later,
        "otherwise": limits.otherwise,
    }


def _bid(bid: Bid) -> dict[str, Any]:
    return {
        "yes": bid.yes,
        "asked_at": bid.asked_at,
        "valid_until": bid.valid_until,
        "reason": bid.reason,
        "start_p50": bid.start_p50,
        "start_p90": bid.start_p90,
        "runtime_factor": bid.runtime_factor,
        "cost": bid.cost,
        "source": bid.source.value,
        "late": bid.late,
    }


def _estimate(estimate: Estimate) -> list[Any]:
    return [estimate.start, estimate.start_p90, estimate.runtime_factor, estimate.cost, estimate.source.value]


def read_candidates(record: Mapping[str, Any]) -> list[Candidate]:
    """The candidates as they were given."""
    columns, states = record["clusters"], states_of(record)
    return [
        Candidate(
            name=name,
            fit=Fit(columns["fit"][i]),
            slots_now=columns["slots_now"][i],
            slots_ever=columns["slots_ever"][i],
            state=states[i],
            state_age=columns["state_age"][i],
            placed=Placed(*record["placed"].get(name, NOTHING_PLACED)),
            bid=bid_from_json(name, record["bids"][name]) if name in record["bids"] else None,
            no_bid=record["no_bids"].get(name, ""),
            record=TrackRecord.from_mapping(record["records"].get(name, {})),
        )
        for i, name in enumerate(columns["name"])
    ]


def bid_from_json(cluster: str, raw: Mapping[str, Any]) -> Bid:
    """One entry of the record's `bids`, as it was given: not corrected by the cluster's track record."""
    return Bid(**{**raw, "cluster": cluster, "source": BidSource(raw["source"])})


def read_demand(record: Mapping[str, Any]) -> Demand:
    """What policies saw of the request."""
    request = {key: value for key, value in record["request"].items() if key != "hash"}
    return Demand(**request)


def read_limits(record: Mapping[str, Any]) -> Limits:
    """What the owner allowed."""
    raw = record["limits"]
    return Limits(**{**raw, "only": frozenset(raw["only"]), "never": frozenset(raw["never"])})
