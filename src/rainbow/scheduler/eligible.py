"""Who takes part in a choice: apply the owner's limits, the age of reports, what was placed since, and "no" bids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from rainbow.model.bid import Bid
from rainbow.model.candidate import NOTHING_PLACED, Candidate, Demand, Limits
from rainbow.model.match import Fit
from rainbow.scheduler.question import Question
from rainbow.scheduler.scoring import Estimate, bias, corrected, estimate

FREE = {"nodes_free": "nodes", "cores_free": "cores"}  # less by what was placed
QUEUED = ("queue_depth", "jobs_queued")  # more by the jobs placed


@dataclass(frozen=True, slots=True)
class Field:
    """The clusters that take part, as policies see them, and the others with their reasons."""

    kept: list[Candidate]
    dropped: dict[str, str]
    notes: dict[str, list[str]]  # what was done to a cluster's numbers before it was judged
    estimates: dict[str, Estimate]
    given: list[Candidate]  # all of them as given, by name


def prepare(question: Question, *, bids: bool, limited: bool = True) -> Field:
    """Sort the candidates by name, bring their numbers up to date, and drop the ones that cannot be chosen.

    `bids`: the policy chooses by them, so a cluster without one is noted. `limited`: apply
    deadline and cost, which need bids to be known.
    """
    limits, demand = question.limits, question.demand
    limited = limited and (limits.deadline is not None or limits.max_cost is not None)
    field = Field([], {}, {}, {}, sorted(question.candidates, key=attrgetter("name")))
    plain = not (bids or limited or limits.only or limits.never)
    for raw in field.given:
        if plain and _needs_nothing(raw, question.stale_after):
            field.kept.append(raw)
            continue
        notes: list[str] = []
        candidate = _up_to_date(raw, question, notes)
        if bids and candidate.bid is None:
            notes.append(f"no bid{f' ({raw.no_bid})' if raw.no_bid else ''}: judged on its state and history")
        why = _not_eligible(candidate, limits)
        if (bids or limited) and not why:
            predicted = field.estimates[raw.name] = estimate(candidate, demand)
            if limited:
                why = _over_limit(predicted, demand, limits, question.now)
        if notes:
            field.notes[raw.name] = notes
        if why:
            field.dropped[raw.name] = why
        else:
            field.kept.append(candidate)
    return field


def _needs_nothing(raw: Candidate, stale_after: float) -> bool:
    """True for the common case, which is to cost nothing: fits now, fresh, nothing placed since, no bid."""
    return (
        raw.fit is Fit.NOW
        and raw.bid is None
        and raw.placed is NOTHING_PLACED
        and (raw.state_age is None or raw.state_age <= stale_after)
    )


def _up_to_date(raw: Candidate, question: Question, notes: list[str]) -> Candidate:
    """`raw` itself when nothing is to be corrected, which is the common case."""
    candidate = raw
    state = used_state(raw, question.stale_after, notes)
    if state is not raw.state:
        candidate = replace(candidate, state=state)
    if raw.bid is not None:
        candidate = replace(candidate, bid=_live(raw.bid, raw, question.now, notes))
    return candidate


def used_state(raw: Candidate, stale_after: float, notes: list[str]) -> Mapping[str, object]:
    """The state that policies see: empty if too old, less what was placed since it was reported."""
    if raw.state_age is not None and raw.state_age > stale_after and raw.state:
        notes.append(f"its state is {raw.state_age:.0f} s old, over {stale_after:.0f} s: treated as unknown")
        return {}
    if raw.placed == NOTHING_PLACED:
        return raw.state
    changed: dict[str, float] = {}
    for key, what in FREE.items():
        taken = getattr(raw.placed, what)
        if taken and (value := _number(raw.state, key)) is not None:
            changed[key] = max(0.0, value - taken)
            notes.append(f"{key} {changed[key]:g}: {value:g} reported, {taken} placed since")
    for key in QUEUED:
        if raw.placed.jobs and (value := _number(raw.state, key)) is not None:
            changed[key] = value + raw.placed.jobs
            notes.append(f"{key} {changed[key]:g}: {value:g} reported, {raw.placed.jobs} placed since")
    return {**raw.state, **changed} if changed else raw.state


def _number(state: Mapping[str, object], key: str) -> float | None:
    value = state.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


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


def _not_eligible(candidate: Candidate, limits: Limits) -> str:
    """Why not, or nothing."""
    name, bid = candidate.name, candidate.bid
    if limits.only and name not in limits.only:
        return "not among the clusters that the owner allows"
    if name in limits.never:
        return "excluded by the owner"
    if bid is not None and not bid.yes:
        return f"says no: {bid.reason or 'without a reason'}"
    if candidate.fit is Fit.NOW or (bid is not None and candidate.fit is not Fit.NEVER):
        return ""
    if candidate.fit is Fit.LATER:
        return "" if limits.later else "fits later, not now"
    return "does not fit" if candidate.fit is Fit.NEVER else "it is not known whether it fits"


def _over_limit(e: Estimate, demand: Demand, limits: Limits, now: float) -> str:
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
