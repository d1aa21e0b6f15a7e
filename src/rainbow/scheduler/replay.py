"""Compute a stored decision again from its record alone: same question, same answer."""

from __future__ import annotations

from rainbow.model.decision import Decision
from rainbow.model.errors import Invalid
from rainbow.model.match import Fit
from rainbow.scheduler.decide import Question, decide
from rainbow.scheduler.policies import BUILT_IN, PolicyTable
from rainbow.scheduler.record import read_candidates, read_demand, read_limits


def replay(record_json: str, policies: PolicyTable = BUILT_IN) -> Decision:
    """Decide again; raise Invalid for a damaged record, UnknownPolicy if the policy is not installed here."""
    return decide(question_of(Decision.from_json(record_json)), policies)


def question_of(decision: Decision) -> Question:
    """The question that a decision answered."""
    record, misfits = decision.own, decision.fleet.document["misfits"]
    try:
        return Question(
            candidates=read_candidates(decision),
            demand=read_demand(record),
            policy=record["policy"]["configured"],
            options=record["policy"]["configured_options"],
            limits=read_limits(record),
            misfits={name: (Fit(fit), why) for name, (fit, why) in misfits.items()},
            request_hash=record["request"]["hash"],
            seed=record["seed"],
            snapshot=record["snapshot"],
            now=record["at"],
            stale_after=record["stale_after"],
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"a decision's record is damaged: {type(error).__name__} {error}") from None
