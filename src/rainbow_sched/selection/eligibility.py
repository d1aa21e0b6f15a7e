"""Find the clusters that may be chosen: apply the owner's limits, stale reports, recent placements and "no" bids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rainbow_sched.model.bid import Bid
from rainbow_sched.model.candidate import Candidate, Demand, OwnerLimits, age, is_stale
from rainbow_sched.selection.bid_scores import Estimate, bias, corrected, estimate
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.question import Question


class Eligible(NamedTuple):
    """The clusters that policies rank, and the reasons why others were dropped."""

    candidates: Sequence[Candidate]  # by name
    dropped: dict[str, str]  # reasons; clusters ruled out by the owner's limits and fit alone are not listed
    notes: dict[str, list[str]]  # corrections to a cluster's numbers, other than recent placements
    estimates: dict[str, Estimate]
    given: CandidateSet  # all candidates of the question


def prepare(question: Question, *, bids: bool, ages: bool = False, limited: bool = True) -> Eligible:
    """Sort the candidates by name, update their numbers, and drop those that cannot be chosen.

    `bids`: the policy uses bids, so note clusters without one. `ages`: it uses the age of reports.
    `limited`: apply the limits on deadline and cost, which need bids.
    """
    criteria = question.criteria
    limits, demand = criteria.limits, criteria.demand
    limited = limited and criteria.bounded
    given = CandidateSet.of(question.candidates)
    some = given.eligible(limits)
    fresh = some.oldest >= question.now - criteria.stale_after
    if given.unasked and fresh and not (bids or ages or limited):
        return Eligible(some, {}, {}, {}, given)
    candidates: list[Candidate] = []
    eligible = Eligible(candidates, {}, {}, {}, given)
    for raw in some:
        notes: list[str] = []
        candidate = _up_to_date(raw, question, notes)
        if ages and raw.report.at is not None:
            candidate = replace(candidate, state_age=age(raw.report.at, question.now))
        if bids and candidate.bid is None:
            notes.append(f"no bid{f' ({raw.no_bid})' if raw.no_bid else ''}: judged on its state and history")
        why = _ineligible(candidate, limits)
        if (bids or limited) and not why:
            predicted = eligible.estimates[raw.name] = estimate(candidate, demand)
            if limited:
                why = _over_limit(predicted, demand, limits, question.now)
        if notes:
            eligible.notes[raw.name] = notes
        if why:
            eligible.dropped[raw.name] = why
        else:
            candidates.append(candidate)
    return eligible


def _up_to_date(raw: Candidate, question: Question, notes: list[str]) -> Candidate:
    """Return `raw` itself if nothing needs correction, which is the common case."""
    candidate = raw
    limit = question.criteria.stale_after
    if is_stale(raw.report, question.now, limit):
        old = age(raw.report.at or 0.0, question.now)
        notes.append(f"its state is {old:.0f} s old, over {limit:.0f} s: treated as unknown")
        candidate = replace(candidate, state={})
    if raw.bid is not None:
        candidate = replace(candidate, bid=_live(raw.bid, raw, question.now, notes))
    return candidate


def _live(bid: Bid, raw: Candidate, now: float, notes: list[str]) -> Bid | None:
    if bid.valid_until < now:
        notes.append(f"its bid expired {now - bid.valid_until:.0f} s ago")
        return None
    if bid.late:
        notes.append(f"its bid came late, {now - bid.asked_at:.0f} s ago")
    factor = bias(raw.record)
    if bid.start_p50 is not None and abs(factor - 1.0) >= 0.05:
        notes.append(f"its waits are {factor:.1f} times what it bids: corrected")
    return corrected(bid, raw.record, now)


def _ineligible(candidate: Candidate, limits: OwnerLimits) -> str:
    """Return the reason if the cluster's bid says no, or if the bid that made it eligible has expired."""
    bid = candidate.bid
    if bid is not None and not bid.yes:
        return f"says no: {bid.reason or 'without a reason'}"
    return limits.why_not(candidate.name, candidate.fit, bid=bid is not None)


def _over_limit(e: Estimate, demand: Demand, limits: OwnerLimits, now: float) -> str:
    if limits.max_cost is not None:
        if e.cost is None:
            return f"its cost is not known, and at most {limits.max_cost:g} is allowed"
        if e.cost > limits.max_cost:
            return f"would cost {e.cost:.2f}; at most {limits.max_cost:g} is allowed"
    if limits.deadline is None:
        return ""
    if e.start_p90 is None:
        return "its start is not known, and there is a deadline"
    done = now + e.start_p90 + (demand.duration or 0.0) * e.runtime_factor
    if done <= limits.deadline:
        return ""
    return f"would {'end' if demand.duration else 'start'} {done - limits.deadline:.0f} s after the deadline"
