"""Decisions stay apart from one another and from broken policies, and their records say all there is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.candidate import Candidate, Demand, OwnerLimits
from rainbow_sched.model.decision import Decision, Row, StoredDecision
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Count, Group, Level, Request
from rainbow_sched.selection.decisions import Question, decide
from rainbow_sched.selection.policies import Policy, PolicyError, PolicyTable, Ranked, Ranking, built_in
from tests.support.candidates import NOW, a_cluster, a_question, questions


def rows(decision: Decision) -> dict[str, Row]:
    return {row.name: row for row in decision.rows()}


def a_table(rank: Ranking) -> PolicyTable:
    class Odd:
        wants_bids = False

        def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
            return rank

    def build(options: Mapping[str, str]) -> Policy:
        return Odd()

    return PolicyTable({"odd": build})


@pytest.mark.parametrize(
    "ranking",
    [
        Ranking([], {}),
        Ranking([Ranked("other", 1.0, "made up")], {"a": "dropped"}),
        Ranking([Ranked("a", 1.0, "once"), Ranked("a", 2.0, "twice")], {}),
        Ranking([Ranked("a", 1.0, "kept")], {"a": "and dropped"}),
        Ranking([Ranked("a", float("nan"), "no number")], {}),
        Ranking.rotated([a_cluster("other")], 0, "made up"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_found_out(ranking: Ranking) -> None:
    with pytest.raises(PolicyError, match="policy 'odd'"):
        decide(a_question(a_cluster("a"), policy="odd"), a_table(ranking))


def test_a_policy_that_crashes_is_a_typed_error_with_its_cause() -> None:
    class Crashes:
        wants_bids = False

        def rank(self, candidates: Sequence[Candidate], demand: Demand, rng: Random) -> Ranking:
            raise ZeroDivisionError("oh")

    def build(options: Mapping[str, str]) -> Policy:
        return Crashes() if not options else {}[0]

    table = PolicyTable({"odd": build})
    with pytest.raises(PolicyError, match="policy 'odd' failed: ZeroDivisionError: oh"):
        decide(a_question(a_cluster("a"), policy="odd"), table)
    with pytest.raises(PolicyError, match="policy 'odd' cannot be built: KeyError"):
        decide(a_question(a_cluster("a"), policy="odd", options={"x": "1"}), table)


def test_users_with_different_options_at_the_same_time_get_their_own_answers() -> None:
    fleet = [a_cluster(f"c{i}", x=i) for i in range(40)]

    def ask(n: int) -> str | None:
        options = {"priorities": f"- {{priority: 1, steps: [{{calc: d=abs(x - {n})}}, {{sort_ascending: d}}]}}"}
        return decide(a_question(*fleet, policy="constraint", options=options)).winner

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, [n % 40 for n in range(200)])) == [f"c{n % 40}" for n in range(200)]


@given(questions(), questions())
@settings(max_examples=40, deadline=None)
def test_no_decision_changes_another(one: Question, other: Question) -> None:
    alone = decide(one).to_json()
    decide(other)
    assert decide(one).to_json() == alone


@given(questions())
@settings(max_examples=160, deadline=None)
def test_the_winner_never_breaks_a_limit(question: Question) -> None:
    decision, limits = decide(question), question.criteria.limits
    for name in decision.ranked:
        row = rows(decision)[name]
        assert not limits.only or name in limits.only
        assert name not in limits.never
        assert row.fit != Fit.UNKNOWN or row.bid is not None
        if limits.max_cost is not None:
            assert row.estimate["cost"] <= limits.max_cost
        if limits.deadline is not None:
            assert NOW + row.estimate["start_p90"] <= limits.deadline
    assert len(rows(decision)) == len(question.candidates) + len(question.misfits)
    assert all(row.reason for row in rows(decision).values())


def test_a_demand_counts_nodes_and_cores_of_all_groups() -> None:
    slot = Level(type="node", count=Count(3), inside=(Level(type="core", count=Count(8)),))
    request = Request(
        groups=(Group(levels=(slot,)), Group(levels=(Level(type="core", count=Count(5)),))), duration=60.0
    )
    demand = Demand.of(request)
    assert (demand.nodes, demand.cores, demand.duration) == (3, 29, 60.0)


def test_the_record_is_one_json_document_with_its_schema() -> None:
    record = json.loads(
        decide(a_question(a_cluster("a", x=1), a_cluster("b", x=2, y="z"), snapshot=17, seed=3)).to_json()
    )
    assert record["schema"] == "rainbow.decision/2"
    assert (record["snapshot"], record["seed"], record["at"]) == (17, 3, NOW)
    assert record["outcome"] == {"kind": "chosen", "cluster": "a"}
    assert record["clusters"]["name"] == ["a", "b"]
    assert record["state"] == {"columns": {"x": [1, 2]}, "rare": {"1": {"y": "z"}}}


def test_the_table_of_policies_is_an_argument_and_not_a_global() -> None:
    assert (
        decide(a_question(a_cluster("a"), policy="odd"), a_table(Ranking([Ranked("a", 0.0, "odd")], {}))).winner == "a"
    )
    assert "odd" not in built_in().factories


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_stored_decision_reads_back_equal(data: st.DataObject) -> None:
    decision = decide(data.draw(questions()))
    assert Decision.from_json(decision.to_json()).to_json() == decision.to_json()
    assert list(Decision.from_json(decision.to_json()).rows()) == list(decision.rows())
    kept = StoredDecision.of(decision).decision()
    assert (kept.record, list(kept.rows())) == (decision.record, list(decision.rows()))
    assert StoredDecision.of(kept) == StoredDecision.of(decision)


@given(questions())
@settings(max_examples=150, deadline=None)
def test_every_cluster_is_in_the_record_once_ranked_or_out_with_a_reason(question: Question) -> None:
    decision = StoredDecision.of(decide(question)).decision()
    said = list(decision.rows())
    assert sorted(row.name for row in said) == sorted([*(c.name for c in question.candidates), *question.misfits])
    given, limits = {c.name: c for c in question.candidates}, question.criteria.limits
    for row in said:
        if row.name in question.misfits:
            continue
        candidate = given[row.name]
        by_rule = not limits.allow(row.name) or (
            candidate.bid is None and candidate.fit is not Fit.NOW and not (candidate.fit is Fit.LATER and limits.later)
        )
        assert row.reason
        assert row.rank is None if by_rule else (row.rank is None) == (row.name in decision.own["dropped"])


@pytest.mark.parametrize(
    ("limits", "full"),
    [(OwnerLimits(only=frozenset({"c7"})), 0), (OwnerLimits(never=frozenset({"c7"})), 0), (OwnerLimits(), 9)],
)
def test_who_is_out_by_a_rule_makes_no_record_longer(limits: OwnerLimits, full: int) -> None:
    def length(count: int) -> int:
        fleet = [a_cluster(f"c{i}", Fit.LATER if i % 10 < full else Fit.NOW) for i in range(count)]
        return len(StoredDecision.of(decide(a_question(*fleet, policy="random", limits=limits))).own)

    assert abs(length(900) - length(100)) < 20
