"""Convert decisions to and from their stored JSON record, which holds the fleet in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from rainbow_sched.model.bid import NO_RECORD, Bid, BidSource, TrackRecord
from rainbow_sched.model.candidate import (
    NOTHING_PLACED,
    Candidate,
    CandidateSet,
    ClusterReport,
    Demand,
    OwnerLimits,
    PlacedSinceReport,
)
from rainbow_sched.model.decision import (
    CRITERIA_KEYS,
    FLEET_KEYS,
    Chosen,
    CriteriaPart,
    Decision,
    DecisionOutcome,
    FleetPart,
    Wait,
    encoded,
    state_of,
)
from rainbow_sched.model.identity_cache import IdentityCache
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.bid_scores import Estimate
from rainbow_sched.selection.eligibility import Eligible
from rainbow_sched.selection.policies import Ranking
from rainbow_sched.selection.question import Criteria, Question


def write_record(question: Question, eligible: Eligible, ranking: Ranking, outcome: DecisionOutcome) -> Decision:
    """Build the record of a decision; `model/decision.py` describes its format."""
    given = eligible.given
    fleet = _fleet_alone(given) if not question.misfits else _fleet(given, question.misfits)
    own = {
        "snapshot": question.snapshot,
        "at": question.now,
        "seed": question.seed,
        "outcome": _outcome(outcome),
        **_ranking(ranking, eligible, fleet),
    }
    if eligible.dropped or ranking.dropped:
        own["dropped"] = dict(sorted({**eligible.dropped, **ranking.dropped}.items()))
    if given.placed:
        own["placed"] = given.placed
    if not given.unasked:
        own["bids"] = {c.name: _bid(c.bid) for c in given if c.bid is not None}
        own["no_bids"] = {c.name: c.no_bid for c in given if c.no_bid}
    if eligible.estimates:
        own["estimates"] = {name: _estimate(estimate) for name, estimate in eligible.estimates.items()}
    if eligible.notes:
        own["notes"] = eligible.notes
    return Decision(fleet, _criteria_part(question.criteria), own)


def _ranking(ranking: Ranking, eligible: Eligible, fleet: FleetPart) -> dict[str, Any]:
    """Encode the ranking as column indices, with scores, reasons and terms in that order; a common reason once."""
    if ranking.given is eligible.candidates and ranking.reason is not None:
        return {"ranked": {"from": ranking.first}, "reasons": ranking.reason}
    place = fleet.place
    ranked = ranking.ranked
    reasons, scores = [entry.reason for entry in ranked], [entry.score for entry in ranked]
    return {
        "ranked": [place[entry.name] for entry in ranked],
        "scores": scores if any(score is not None for score in scores) else [],
        "reasons": reasons[0] if len(set(reasons)) == 1 else reasons,
        "terms": {entry.name: entry.terms for entry in ranked if entry.terms},
    }


def _make_criteria_part(criteria: Criteria) -> CriteriaPart:
    policy, options = criteria.chosen_policy
    policy_part = {
        "name": policy,
        "options": dict(options),
        "configured": criteria.policy,
        "configured_options": dict(criteria.options),
    }
    parts = (
        _request(criteria.request_hash, criteria.demand),
        policy_part,
        _limits(criteria.limits),
        criteria.stale_after,
    )
    return CriteriaPart(dict(zip(CRITERIA_KEYS, parts, strict=True)))


_criteria_part = IdentityCache(_make_criteria_part)


def _fleet(given: CandidateSet, misfits: Mapping[str, tuple[Fit, str]]) -> FleetPart:
    """Build the fleet's part, which all decisions on the same fleet state share."""
    return _fleet_part(given.reports, given.later, given.slots, tuple([(name, *why) for name, why in misfits.items()]))


_fleet_alone = IdentityCache(lambda given: _fleet(given, {}), max_entries=256)


@lru_cache(maxsize=256)
def _fleet_part(
    reports: tuple[ClusterReport, ...],
    later: tuple[tuple[int, Fit], ...],
    slots: tuple[tuple[int, int], ...],
    misfits: tuple[tuple[str, Fit, str], ...],
) -> FleetPart:
    """`later`: index and fit of clusters that do not fit now; `slots`: now and ever, if they were counted."""
    fits = [Fit.NOW.value] * len(reports)
    for i, fit in later:
        fits[i] = fit.value
    columns = {
        "name": [report.name for report in reports],
        "fit": fits,
        "slots_now": [now for now, _ in slots] or [0] * len(reports),
        "slots_ever": [ever for _, ever in slots] or [0] * len(reports),
        "at": [report.at for report in reports],
    }
    parts = (
        columns,
        _state_columns([report.state for report in reports]),
        {report.name: report.record.to_mapping() for report in reports if report.record is not NO_RECORD},
        {name: [fit.value, why] for name, fit, why in misfits},
    )
    return FleetPart(encoded(dict(zip(FLEET_KEYS, parts, strict=True))))


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


def _state_columns(states: list[Mapping[str, object]]) -> dict[str, Any]:
    """Return a column per key; keys that few clusters report are stored per cluster, to avoid sparse columns."""
    counts = Counter(chain.from_iterable(states))
    half = len(states) // 2
    columns = {key: [state.get(key) for state in states] for key, count in counts.items() if count > half}
    rare = counts.keys() - columns.keys()
    if not rare:
        return {"columns": columns, "rare": {}}
    by_cluster = {str(i): {k: v for k, v in state.items() if k in rare} for i, state in enumerate(states)}
    return {"columns": columns, "rare": {i: values for i, values in by_cluster.items() if values}}


def _outcome(outcome: DecisionOutcome) -> dict[str, Any]:
    if isinstance(outcome, Chosen):
        return {"kind": "chosen", "cluster": outcome.cluster}
    kind = "wait" if isinstance(outcome, Wait) else "refuse"
    return {"kind": kind, "reasons": list(outcome.reasons), "ever": outcome.ever}


def _limits(limits: OwnerLimits) -> dict[str, Any]:
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


def read_candidates(decision: Decision) -> list[Candidate]:
    """Return the candidates of the question that the decision answered."""
    own, fleet = decision.own, decision.fleet.document
    columns = fleet["clusters"]
    candidates = []
    for i, name in enumerate(columns["name"]):
        report = ClusterReport(
            name=name,
            state=state_of(fleet, i),
            at=columns["at"][i],
            record=TrackRecord.from_mapping(fleet["records"].get(name, {})),
        )
        candidate = Candidate.of(
            report,
            Fit(columns["fit"][i]),
            placed=PlacedSinceReport(*own["placed"][name]) if name in own["placed"] else NOTHING_PLACED,
            slots_now=columns["slots_now"][i],
            slots_ever=columns["slots_ever"][i],
            bid=bid_from_json(name, own["bids"][name]) if name in own["bids"] else None,
            no_bid=own["no_bids"].get(name, ""),
        )
        candidates.append(candidate)
    return candidates


def bid_from_json(cluster: str, raw: Mapping[str, Any]) -> Bid:
    """Read one entry of the record's `bids`: the bid as received, without correction by the track record."""
    return Bid(**{**raw, "cluster": cluster, "source": BidSource(raw["source"])})


def read_demand(record: Mapping[str, Any]) -> Demand:
    """Return the demand that policies saw."""
    request = {key: value for key, value in record["request"].items() if key != "hash"}
    return Demand(**request)
