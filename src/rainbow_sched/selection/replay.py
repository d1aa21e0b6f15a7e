"""Recompute a stored decision from its record."""

from __future__ import annotations

from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.decision import Decision, limits_of
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.decisions import Criteria, Question, decide
from rainbow_sched.selection.policies import PolicyTable
from rainbow_sched.selection.record import read_candidates


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
