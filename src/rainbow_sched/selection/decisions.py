"""Choose one of the clusters that fit and record the reasons."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.model.decision import Chosen, Decision, DecisionOutcome, Refuse, Wait
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.decision_random import DecisionRandom
from rainbow_sched.selection.eligibility import Eligible, prepare
from rainbow_sched.selection.policies import Policy, PolicyError, PolicyTable, Ranking, built_in
from rainbow_sched.selection.question import STALE_AFTER_SECONDS, Criteria, Question
from rainbow_sched.selection.record import write_record

__all__ = ["MAX_BID_REQUESTS", "STALE_AFTER_SECONDS", "Criteria", "Question", "clusters_to_ask", "decide", "wants_bids"]

MAX_BID_REQUESTS = 8  # clusters asked for one decision; as the server's default `bidders`
MAX_REASONS = 20  # bounds the size of a decision's record
MAX_SCORE = 1.7976931348623157e308  # the largest float


def decide(question: Question, policies: PolicyTable | None = None) -> Decision:
    """Rank the eligible clusters and choose the first; the same question always gives the same decision."""
    name, options = question.criteria.chosen_policy
    policy = (policies or built_in()).build(name, options)
    eligible = prepare(question, bids=policy.wants_bids, ages=getattr(policy, "wants_ages", False))
    ranking = _rank(name, policy, eligible, question)
    return write_record(question, eligible, ranking, _outcome(question, eligible, ranking))


def wants_bids(question: Question, policies: PolicyTable | None = None) -> bool:
    """Return True if this decision needs bids."""
    return question.criteria.bounded or (policies or built_in()).build(*question.criteria.chosen_policy).wants_bids


def clusters_to_ask(
    question: Question, policies: PolicyTable | None = None, at_most: int = MAX_BID_REQUESTS
) -> list[str]:
    """Return the clusters to request bids from: those where the job fits now first, then by rank without bids.

    Clusters that already have a bid, cannot bid, or are excluded are left out.
    """
    candidates = [c for c in question.candidates if c.bid is None and not c.no_bid]
    criteria = replace(question.criteria, limits=replace(question.criteria.limits, later=True))
    open_question = question._replace(criteria=criteria, candidates=candidates)
    name, options = criteria.chosen_policy
    policy = (policies or built_in()).build(name, options)
    eligible = prepare(open_question, bids=False, limited=False)
    ranking = _rank(name, policy, eligible, open_question)
    later = {c.name for c in eligible.candidates if c.fit is not Fit.NOW}
    return sorted(ranking.names, key=later.__contains__)[:at_most]


def _rank(name: str, policy: Policy, eligible: Eligible, question: Question) -> Ranking:
    if not eligible.candidates:
        return Ranking([], {})
    try:
        ranking = policy.rank(eligible.candidates, question.criteria.demand, DecisionRandom(question.seed))
    except (RainbowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a plugin may raise anything
        raise PolicyError(f"policy {name!r} failed: {type(error).__name__}: {error}") from error
    if ranking.given is eligible.candidates and not ranking.dropped:
        return ranking  # complete by construction
    given = CandidateSet.of(eligible.candidates).by_name.keys()
    if len(ranking.names) + len(ranking.dropped) != len(given) or not given == {*ranking.names, *ranking.dropped}:
        raise PolicyError(f"policy {name!r} must rank or drop each cluster it is given once, and no other")
    for entry in () if ranking.reason is not None else ranking.ranked:
        if entry.score is not None and not -MAX_SCORE <= entry.score <= MAX_SCORE:
            raise PolicyError(f"policy {name!r} gave {entry.name} the score {entry.score}; a score must be finite")
    return ranking


def _outcome(question: Question, eligible: Eligible, ranking: Ranking) -> DecisionOutcome:
    if ranking.best is not None:
        return Chosen(ranking.best)
    limits = question.criteria.limits
    misfits = {name: fit for name, fit in question.misfits.items() if limits.allow(name)}
    allowed = [c for c in eligible.given if limits.allow(c.name)]
    out = {c.name: limits.why_not(c.name, c.fit, bid=c.bid is not None) for c in allowed}
    all_reasons = {**out, **eligible.dropped, **ranking.dropped, **{name: why for name, (_, why) in misfits.items()}}
    reasons = [f"{name}: {why}" for name, why in all_reasons.items() if why]
    if len(reasons) > MAX_REASONS:
        reasons[MAX_REASONS:] = [f"and {len(reasons) - MAX_REASONS} more"]
    never = sum(1 for fit, why in misfits.values() if fit is Fit.NEVER and not why)
    if never:
        reasons.append(f"{never} cluster{'s' if never > 1 else ''} could never run it")
    fits = [c.fit for c in allowed] + [fit for fit, _ in misfits.values()]
    if not fits:
        limited = limits.only or limits.never
        reasons.append("no cluster that its owner allows is registered" if limited else "no cluster is registered")
    ever = any(fit is not Fit.NEVER for fit in fits)
    kind = Refuse if limits.otherwise == "refuse" and not ever else Wait
    return kind(tuple(reasons), ever)
