"""A stored decision, computed again from its record alone, is the same decision."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings

from rainbow_sched.model.decision import Decision
from rainbow_sched.model.errors import Invalid
from rainbow_sched.selection.decisions import Question, decide, question_of, replay
from rainbow_sched.selection.policies import POLICIES, PolicyTable, UnknownPolicy
from tests.support.candidates import a_bid, a_cluster, a_question, questions


@given(questions())
@settings(max_examples=120, deadline=None)
def test_any_decision_replays_to_the_same_record(question: Question) -> None:
    decision = decide(question)
    stored = decision.to_json()
    again = replay(stored)
    assert again.winner == decision.winner
    assert again.to_json() == stored


def test_a_replay_asks_the_question_that_was_asked() -> None:
    question = a_question(a_cluster("a", x=1, bid=a_bid("a", 5.0)), policy="start", seed=9, snapshot=4)
    found = question_of(Decision.from_json(decide(question).to_json()))
    assert [asdict(c) for c in found.candidates] == [asdict(c) for c in question.candidates]
    assert (found.criteria, found.seed, found.snapshot) == (question.criteria, 9, 4)


def test_a_changed_record_gives_another_answer() -> None:
    record = json.loads(
        decide(a_question(a_cluster("a", x=1), a_cluster("b", x=2), policy="least", options={"key": "x"})).to_json()
    )
    record["state"]["columns"]["x"] = [3, 2]
    assert replay(json.dumps(record)).winner == "b"


def test_a_policy_that_is_not_installed_here_is_a_typed_error() -> None:
    table = PolicyTable({**POLICIES, "theirs": POLICIES["first"]})
    stored = decide(a_question(a_cluster("a"), policy="theirs"), table).to_json()
    assert replay(stored, table).winner == "a"
    with pytest.raises(UnknownPolicy, match="there is no policy 'theirs'"):
        replay(stored)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("", "must be JSON"),
        ("[]", "must be an object of schema rainbow.decision/2, not 'list'"),
        ('{"schema": "rainbow.decision/9"}', "not 'rainbow.decision/9'"),
        ('{"schema": "rainbow.decision/2"}', "lacks at, bids, clusters"),
    ],
)
def test_what_is_not_a_record_is_refused(damage: str, says: str) -> None:
    with pytest.raises(Invalid, match="decision record") as caught:
        replay(damage)
    assert says in str(caught.value)


@pytest.mark.parametrize("part", ["clusters", "state", "limits", "bids", "policy", "request", "misfits"])
def test_a_damaged_record_is_refused_and_never_half_replayed(part: str) -> None:
    record = json.loads(decide(a_question(a_cluster("a", bid=a_bid("a")), policy="start")).to_json())
    record[part] = {"a": 1}
    with pytest.raises(Invalid, match="is damaged"):
        replay(json.dumps(record))
