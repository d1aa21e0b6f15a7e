"""Convert decisions to and from their stored JSON record, which holds the fleet in columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rainbow_sched.model.bid import Bid, BidSource, TrackRecord
from rainbow_sched.model.candidate import NOTHING_PLACED, Candidate, ClusterReport, PlacedSinceReport
from rainbow_sched.model.decision import Chosen, Decision, DecisionOutcome, FleetPart, Wait, state_of
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.bid_scores import Estimate
from rainbow_sched.selection.eligibility import Eligible
from rainbow_sched.selection.policies import Ranking
from rainbow_sched.selection.question import Question


def write_record(question: Question, eligible: Eligible, ranking: Ranking, outcome: DecisionOutcome) -> Decision:
    """Build the record of a decision; `model/decision.py` describes its format."""
    given = eligible.given
    fleet = given.fleet_part(question.misfits)
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
    return Decision(fleet, question.criteria.record_part, own)


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


def _outcome(outcome: DecisionOutcome) -> dict[str, Any]:
    if isinstance(outcome, Chosen):
        return {"kind": "chosen", "cluster": outcome.cluster}
    kind = "wait" if isinstance(outcome, Wait) else "refuse"
    return {"kind": kind, "reasons": list(outcome.reasons), "ever": outcome.ever}


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
