"""Choose one of the clusters that fit and record the reasons; recompute a stored decision from its record."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.decision import Chosen, Decision, DecisionOutcome, Refuse, Wait, limits_of
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.eligibility import Eligible, prepare
from rainbow_sched.selection.policies import Policy, PolicyError, PolicyTable, Ranking, built_in
from rainbow_sched.selection.question import STALE_AFTER_SECONDS, Criteria, Question
from rainbow_sched.selection.record import read_candidates, write_record

__all__ = [
    "MAX_BID_REQUESTS",
    "STALE_AFTER_SECONDS",
    "Criteria",
    "Question",
    "clusters_to_ask",
    "decide",
    "question_of",
    "replay",
    "wants_bids",
]

MAX_BID_REQUESTS = 8  # clusters asked for one decision; as the server's default `bidders`
MAX_REASONS = 20  # bounds the size of a decision's record
MAX_SCORE = 1.7976931348623157e308  # the largest float
_WORD = (1 << 64) - 1


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
    fits = [c.fit for c in allowed] + [fit for fit, _ in misfits.values()]
    never = sum(1 for fit, why in misfits.values() if fit is Fit.NEVER and not why)
    if never:
        some = f"{never} cluster{'s' if never > 1 else ''} can never run it"
        reasons.append("no registered cluster can run this job" if never == len(fits) else some)
    if not fits:
        limited = limits.only or limits.never
        reasons.append("no cluster that its owner allows is registered" if limited else "no cluster is registered")
    ever = any(fit is not Fit.NEVER for fit in fits)
    kind = Refuse if limits.otherwise == "refuse" and not ever else Wait
    return kind(tuple(reasons), ever)


def replay(record_json: str, policies: PolicyTable | None = None) -> Decision:
    """Decide again; raise Invalid for a damaged record, UnknownPolicy if the policy is not installed."""
    return decide(question_of(Decision.from_json(record_json)), policies)


def question_of(decision: Decision) -> Question:
    """Return the question that a decision answered."""
    record, misfits = decision.own, decision.fleet.document["misfits"]
    try:
        demand = {key: value for key, value in record["request"].items() if key != "hash"}
        criteria = Criteria(
            demand=Demand(**demand),
            policy=record["policy"]["configured"],
            options=record["policy"]["configured_options"],
            limits=limits_of(record["limits"]),
            request_hash=record["request"]["hash"],
            stale_after=record["stale_after"],
        )
        return Question(
            criteria=criteria,
            candidates=read_candidates(decision),
            misfits={name: (Fit(fit), why) for name, (fit, why) in misfits.items()},
            seed=record["seed"],
            snapshot=record["snapshot"],
            now=record["at"],
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"a decision record is damaged: {type(error).__name__} {error}") from None


class DecisionRandom(Random):
    """The random numbers of one decision: the same seed gives the same numbers on every machine.

    They are made by SplitMix64, with one word of state instead of 624, so that seeding is cheap.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)

    def seed(self, a: object = 0, version: int = 2) -> None:
        if not isinstance(a, int):
            raise TypeError("the seed of a decision must be an integer")
        self._state = a & _WORD
        self.gauss_next = None  # the second number of a pair made by `gauss`

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return (self._word() >> 11) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for _ in range(-(-k // 64)):
            bits = bits << 64 | self._word()
        return bits >> (-k % 64)

    def getstate(self) -> tuple[int, ...]:
        return (self._state,)

    def setstate(self, state: tuple[int, ...]) -> None:
        self.seed(*state)

    def _word(self) -> int:
        word = self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        return word ^ (word >> 31)
