"""A decision follows from its question alone: limits, reports, bids and the policy, each with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rainbow_sched.model.candidate import Candidate, Demand, OwnerLimits, PlacedSinceReport
from rainbow_sched.model.decision import Chosen, Decision, Refuse, Row, Wait
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.decisions import clusters_to_ask, decide, wants_bids
from tests.support.candidates import NOW, a_bid, a_cluster, a_question, with_criteria


def rows(decision: Decision) -> dict[str, Row]:
    return {row.name: row for row in decision.rows()}


def test_the_best_is_chosen_and_the_others_follow_in_order() -> None:
    decision = decide(a_question(a_cluster("c"), a_cluster("a"), a_cluster("b"), policy="first"))
    assert decision.outcome == Chosen("a")
    assert decision.winner == "a"
    assert decision.ranked == ("a", "b", "c")
    assert [row.rank for row in decision.rows()] == [0, 1, 2]


def test_the_order_in_which_clusters_are_given_changes_nothing() -> None:
    fleet = [a_cluster(name) for name in "abcdef"]
    decisions = {decide(a_question(*order, policy="random", seed=5)).to_json() for order in (fleet, fleet[::-1])}
    assert len(decisions) == 1


def test_the_seed_decides_what_is_left_to_chance() -> None:
    fleet = [a_cluster(name) for name in "abcdef"]
    winners = {decide(a_question(*fleet, policy="random", seed=seed)).winner for seed in range(50)}
    assert winners == set("abcdef")


def test_what_was_placed_since_the_report_is_counted_so_that_a_burst_spreads() -> None:
    options = {"priorities": "- {priority: 1, steps: [{filter: nodes_free >= 4}, {sort_descending: nodes_free}]}"}
    placed = {"big": PlacedSinceReport(), "small": PlacedSinceReport()}
    won = []
    for _ in range(8):
        fleet = [
            a_cluster("big", nodes_free=20, placed=placed["big"]),
            a_cluster("small", nodes_free=14, placed=placed["small"]),
        ]
        winner = decide(a_question(*fleet, policy="constraint", options=options)).winner
        assert winner is not None
        won.append(winner)
        placed[winner] = PlacedSinceReport(placed[winner].jobs + 1, placed[winner].nodes + 4)
    assert won == ["big", "big", "small", "big", "small", "big", "small", "big"]


def test_a_corrected_number_says_how_it_came_about() -> None:
    cluster = a_cluster("a", nodes_free=20, queue_depth=1, placed=PlacedSinceReport(jobs=2, nodes=8))
    decision = decide(a_question(cluster, policy="least"))
    assert rows(decision)["a"].notes == (
        "nodes_free 12: 20 reported, 8 placed since",
        "queue_depth 3: 1 reported, 2 placed since",
    )
    assert rows(decision)["a"].score == 3
    assert cluster.report.state == {"nodes_free": 20, "queue_depth": 1}
    crowded = Candidate.of(cluster.report, cluster.fit, placed=PlacedSinceReport(jobs=1, nodes=99))
    full = decide(a_question(crowded, policy="least", options={"key": "nodes_free"}))
    assert rows(full)["a"].score == 0


def test_the_age_at_which_state_is_stale_is_configured() -> None:
    fleet = [a_cluster("a", queue_depth=0, state_age=61.0), a_cluster("b", queue_depth=9)]
    assert decide(a_question(*fleet, policy="least")).winner == "a"
    assert decide(a_question(*fleet, policy="least", stale_after=60.0)).winner == "b"


def test_a_cluster_that_says_no_is_out_with_its_reason() -> None:
    fleet = [a_cluster("a", bid=a_bid("a", yes=False, reason="queue closed")), a_cluster("b", bid=a_bid("b", 9.0))]
    decision = decide(a_question(*fleet, policy="start"))
    assert decision.winner == "b"
    assert rows(decision)["a"].reason == "says no: queue closed"
    assert rows(decision)["a"].rank is None


def test_when_every_bid_is_a_no_the_job_waits() -> None:
    fleet = [a_cluster(name, bid=a_bid(name, yes=False, reason="full")) for name in "ab"]
    reasons = ("a: says no: full", "b: says no: full")
    assert decide(a_question(*fleet, policy="start")).outcome == Wait(reasons)
    in_haste = decide(a_question(*fleet, policy="start", limits=OwnerLimits(otherwise="refuse")))
    assert in_haste.outcome == Wait(reasons)  # some day it can run
    assert in_haste.winner is None


@pytest.mark.parametrize("fit", [Fit.LATER, Fit.UNKNOWN])
def test_only_what_no_cluster_could_ever_run_is_refused_at_once(fit: Fit) -> None:
    in_haste = OwnerLimits(otherwise="refuse")
    assert isinstance(decide(a_question(a_cluster("a", fit), limits=in_haste)).outcome, Wait)
    assert isinstance(decide(a_question(misfits={"a": (Fit.UNKNOWN, "is draining")}, limits=in_haste)).outcome, Wait)
    assert isinstance(decide(a_question(misfits={"a": (Fit.NEVER, "")}, limits=in_haste)).outcome, Refuse)


def test_an_expired_bid_is_no_bid_and_a_late_one_says_so() -> None:
    fleet = [
        a_cluster("a", bid=a_bid("a", 900.0, valid_until=NOW - 20)),
        a_cluster("b", bid=a_bid("b", 500.0, late=True, asked_at=NOW - 7)),
    ]
    decision = decide(a_question(*fleet, policy="start"))
    assert decision.winner == "a"
    assert rows(decision)["a"].notes == ("its bid expired 20 s ago", "no bid: judged on its state and history")
    assert rows(decision)["b"].notes == ("its bid came late, 7 s ago",)
    assert rows(decision)["b"].estimate["start"] == 493.0


def test_a_cluster_where_it_fits_later_is_chosen_only_on_its_word_or_if_that_is_allowed() -> None:
    later = a_cluster("a", Fit.LATER)
    assert decide(a_question(later)).outcome == Wait(("a: busy, fits later",))
    assert decide(a_question(later, limits=OwnerLimits(later=True))).winner == "a"
    assert decide(a_question(replace(later, bid=a_bid("a", 600.0)), policy="start")).winner == "a"
    assert decide(a_question(a_cluster("a", Fit.UNKNOWN))).outcome == Wait(("a: it is not known whether it fits",))
    eager = a_cluster("a", Fit.NEVER, bid=a_bid("a", 0.0))
    assert decide(a_question(eager, policy="start")).outcome.reasons == ("a: does not fit",)


def test_a_word_that_is_no_longer_good_does_not_let_a_cluster_in_where_it_fits_later() -> None:
    late = a_cluster("a", Fit.LATER, bid=a_bid("a", 600.0, valid_until=NOW - 20))
    decision = decide(a_question(late, policy="start"))
    assert decision.outcome == Wait(("a: busy, fits later",))
    assert rows(decision)["a"].reason == "busy, fits later"


def test_only_and_never_narrow_the_fleet() -> None:
    fleet = [a_cluster(name) for name in "abc"]
    decision = decide(a_question(*fleet, limits=OwnerLimits(only=frozenset("bc"), never=frozenset("b"))))
    assert decision.ranked == ("c",)
    assert rows(decision)["a"].reason == "not among the clusters that the owner allows"
    assert rows(decision)["b"].reason == "excluded by the owner"


@pytest.mark.parametrize(
    "wrong",
    [{"max_cost": -1}, {"max_cost": float("nan")}, {"deadline": float("inf")}, {"prefer": "luck"}, {"otherwise": "x"}],
)
def test_limits_that_make_no_sense_cannot_be_built(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        OwnerLimits(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_a_record_never_holds_an_infinity() -> None:
    with pytest.raises(Invalid, match="finite"):
        decide(a_question(a_cluster("a", x=float("inf")))).to_json()


def test_a_cost_limit_drops_what_is_dearer_and_what_is_not_known() -> None:
    fleet = [a_cluster("cheap", cost_per_node_hour=1), a_cluster("dear", cost_per_node_hour=9), a_cluster("unknown")]
    decision = decide(a_question(*fleet, limits=OwnerLimits(max_cost=5.0), demand=Demand(nodes=2, duration=3600.0)))
    assert decision.ranked == ("cheap",)
    assert rows(decision)["dear"].reason == "would cost 18.00; at most 5 is allowed"
    assert rows(decision)["unknown"].reason == "its cost is not known, and at most 5 is allowed"


def test_a_deadline_counts_the_p90_and_the_run_time() -> None:
    fleet = [
        a_cluster("soon", bid=a_bid("soon", 10.0)),
        a_cluster("unsure", bid=a_bid("unsure", 5.0, start_p90=500.0)),
        a_cluster("slow", bid=a_bid("slow", 0.0, runtime_factor=3.0)),
    ]
    question = a_question(*fleet, policy="start", demand=Demand(duration=300.0), limits=OwnerLimits(deadline=NOW + 400))
    decision = decide(question)
    assert decision.ranked == ("soon",)
    assert rows(decision)["unsure"].reason == "would end 400 s after the deadline"
    assert rows(decision)["slow"].reason == "would end 500 s after the deadline"
    unsaid = decide(with_criteria(question, demand=Demand(), limits=OwnerLimits(deadline=NOW + 400)))
    assert rows(unsaid)["unsure"].reason == "would start 100 s after the deadline"


def test_a_preference_takes_the_place_of_the_policy() -> None:
    fleet = [a_cluster("a", bid=a_bid("a", 10.0, cost=9.0)), a_cluster("b", bid=a_bid("b", 90.0, cost=1.0))]
    question = a_question(*fleet, policy="least", options={"key": "x"})
    assert decide(with_criteria(question, limits=OwnerLimits(prefer="start"))).winner == "a"
    decision = decide(with_criteria(question, limits=OwnerLimits(prefer="cost")))
    assert (decision.winner, decision.policy) == ("b", "cost")


def test_clusters_that_do_not_fit_are_named_with_their_fit() -> None:
    misfits = {"tiny": (Fit.NEVER, "1 node, 2 needed"), "old": (Fit.NEVER, ""), "shut": (Fit.UNKNOWN, "is drained")}
    decision = decide(a_question(misfits=misfits))
    assert decision.outcome == Wait(
        ("tiny: 1 node, 2 needed", "shut: is drained", "1 cluster can never run it"), ever=True
    )
    assert rows(decision)["tiny"] == Row(name="tiny", fit="never", reason="1 node, 2 needed")
    never = decide(a_question(misfits={"old": (Fit.NEVER, "")}, limits=OwnerLimits(otherwise="refuse")))
    assert never.outcome == Refuse(("no registered cluster can run this job",), ever=False)
    assert decide(a_question()).outcome == Wait(("no cluster is registered",), ever=False)


def test_many_reasons_are_cut_short() -> None:
    outcome = decide(a_question(*(a_cluster(f"c{i:02}", Fit.LATER) for i in range(30)))).outcome
    assert isinstance(outcome, Wait)
    assert len(outcome.reasons) == 21
    assert outcome.reasons[-1] == "and 10 more"


def test_those_are_asked_first_that_would_win_without_a_bid() -> None:
    fleet = [
        a_cluster("busy", Fit.LATER, cost_per_node_hour=0.5),
        a_cluster("dear", cost_per_node_hour=9),
        a_cluster("cheap", cost_per_node_hour=1),
        a_cluster("told", bid=a_bid("told", 1.0)),
        a_cluster("mute", no_bid="no agent"),
        a_cluster("shut"),
    ]
    question = a_question(*fleet, policy="cost", limits=OwnerLimits(never=frozenset({"shut"}), max_cost=0.5))
    assert clusters_to_ask(question) == ["cheap", "dear", "busy"]
    assert clusters_to_ask(question, at_most=1) == ["cheap"]


def test_bids_are_wanted_by_the_policy_or_for_a_limit() -> None:
    assert wants_bids(a_question(policy="start"))
    assert wants_bids(a_question(policy="first", limits=OwnerLimits(prefer="cost")))
    assert wants_bids(a_question(policy="first", limits=OwnerLimits(deadline=NOW)))
    assert not wants_bids(a_question(policy="first"))


def test_satisfy_only_is_the_ranking_of_all_that_are_left() -> None:
    fleet = [a_cluster("a", Fit.LATER, queue_depth=0), a_cluster("b", queue_depth=9), a_cluster("c", queue_depth=1)]
    question = a_question(*fleet, policy="least", limits=OwnerLimits(later=True, never=frozenset({"d"})))
    assert decide(question).ranked == ("c", "b", "a")
