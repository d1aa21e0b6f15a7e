"""Each built-in policy orders clusters as it says; other people's are found by entry point, loaded or not."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import EntryPoint
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.bid import TrackRecord
from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.policies import (
    MAX_CACHED_POLICIES,
    POLICIES,
    PolicyError,
    Ranking,
    UnknownPolicy,
    built_in,
    installed,
)
from tests.support.candidates import a_bid, a_cluster


def choose(policy: str, *fleet: Candidate, demand: Demand | None = None, seed: int = 0, **options: str) -> Ranking:
    return built_in().build(policy, options).rank(fleet, demand or Demand(), Random(seed))


def order(ranking: Ranking) -> list[str]:
    return [entry.name for entry in ranking.ranked]


def test_random_reaches_every_cluster_about_equally_often() -> None:
    fleet = [a_cluster(name) for name in "abcd"]
    orders = [order(choose("random", *fleet, seed=seed)) for seed in range(400)]
    for place in range(4):
        there = Counter(names[place] for names in orders)
        assert set(there) == set("abcd")
        assert min(there.values()) > 60


def test_random_draws_among_those_where_it_fits_now_and_then_among_the_others() -> None:
    fleet = [a_cluster(name, Fit.NOW if name in "bd" else Fit.LATER) for name in "abcd"]
    orders = Counter("".join(order(choose("random", *fleet, seed=seed))) for seed in range(400))
    assert set(orders) == {"bdac", "bdca", "dbac", "dbca"}
    assert min(orders.values()) > 60


def test_first_goes_by_the_given_order_and_then_by_name() -> None:
    fleet = [a_cluster(name) for name in "abcd"]
    assert order(choose("first", *fleet)) == ["a", "b", "c", "d"]
    assert order(choose("first", *fleet, order=" d, b")) == ["d", "b", "a", "c"]


def test_least_takes_the_smallest_and_puts_the_unknown_last() -> None:
    fleet = [a_cluster("a"), a_cluster("b", load=7), a_cluster("c", load=2.5), a_cluster("d", load="low")]
    ranking = choose("least", *fleet, key="load")
    assert order(ranking) == ["c", "b", "a", "d"]
    assert ranking.ranked[0] == ("c", 2.5, "load 2.5", None)
    assert ranking.ranked[2] == ("a", None, "load is not known", None)


def test_spread_takes_the_emptiest_and_pack_the_fullest() -> None:
    fleet = [
        a_cluster("a", slots_now=5, slots_ever=10),
        a_cluster("b", slots_now=9, slots_ever=10),
        a_cluster("c", slots_now=10, slots_ever=100),
    ]
    assert order(choose("spread", *fleet)) == ["b", "a", "c"]
    assert order(choose("pack", *fleet)) == ["c", "a", "b"]
    assert choose("pack", *fleet).ranked[0].reason == "10 of 100 slots free"


@pytest.mark.parametrize("policy", ["random", "first", "least", "spread", "pack"])
def test_where_it_fits_now_comes_before_where_it_fits_later(policy: str) -> None:
    fleet = [a_cluster("a", Fit.LATER, queue_depth=0), a_cluster("b", queue_depth=9), a_cluster("c", Fit.LATER)]
    for seed in range(5):
        ranking = choose(policy, *fleet, seed=seed)
        assert order(ranking)[0] == "b"
        assert "fits only later" in ranking.ranked[1].reason


def test_start_takes_the_earliest_and_says_on_whose_word() -> None:
    fleet = [
        a_cluster("bids", bid=a_bid("bids", 120.0)),
        a_cluster("free"),
        a_cluster("seen", Fit.LATER, record=TrackRecord(wait=60.0)),
        a_cluster("unseen", Fit.LATER),
    ]
    ranking = choose("start", *fleet)
    assert [(entry.name, entry.reason) for entry in ranking.ranked] == [
        ("free", "would start in 0 s, by its state; no bid"),
        ("seen", "would start in 60 s, as it did before; no bid"),
        ("bids", "would start in 120 s, as it bids"),
        ("unseen", "start is not known"),
    ]


def test_cost_takes_the_cheapest_whole_job() -> None:
    fleet = [
        a_cluster("bids", bid=a_bid("bids", cost=5.0), cost_per_node_hour=0.01),
        a_cluster("nodes", cost_per_node_hour=3),
        a_cluster("cores", cost_per_core_hour=0.1),
        a_cluster("slow", bid=a_bid("slow", runtime_factor=4.0), cost_per_node_hour=1),
        a_cluster("unknown"),
    ]
    ranking = choose("cost", *fleet, demand=Demand(nodes=2, cores=16, duration=1800.0))
    assert [(entry.name, entry.score) for entry in ranking.ranked] == [
        ("cores", pytest.approx(0.8)),
        ("nodes", pytest.approx(3.0)),
        ("slow", pytest.approx(4.0)),
        ("bids", 5.0),
        ("unknown", None),
    ]


def test_equal_starts_are_told_apart_by_cost() -> None:
    fleet = [a_cluster("a", cost_per_node_hour=9), a_cluster("b", cost_per_node_hour=1), a_cluster("c")]
    assert order(choose("start", *fleet)) == ["b", "a", "c"]


def test_weighted_shows_every_term_and_scores_between_0_and_1() -> None:
    fleet = [
        a_cluster("a", bid=a_bid("a", 0.0, cost=10.0), queue_depth=4),
        a_cluster("b", bid=a_bid("b", 100.0, cost=0.0), queue_depth=0),
        a_cluster("c", bid=a_bid("c", 50.0, cost=5.0), queue_depth=2),
    ]
    ranking = choose("weighted", *fleet)
    assert [(entry.name, entry.score, entry.terms) for entry in ranking.ranked] == [
        ("a", pytest.approx(0.6), {"start": 0.0, "cost": pytest.approx(0.3), "queue": pytest.approx(0.1)}),
        ("c", pytest.approx(0.5), {k: pytest.approx(v) for k, v in (("start", 0.3), ("cost", 0.15), ("queue", 0.05))}),
        ("b", pytest.approx(0.4), {"start": pytest.approx(0.6), "cost": 0.0, "queue": 0.0}),
    ]
    assert ranking.ranked[0].reason == "score 0.600: start 0, cost 10, queue 4"


def test_weights_are_relative_and_a_minus_means_that_more_is_better() -> None:
    fleet = [a_cluster("a", nodes_free=1), a_cluster("b", nodes_free=9), a_cluster("c")]
    ranking = choose("weighted", *fleet, weights="-40*nodes_free")
    assert [(entry.name, entry.score) for entry in ranking.ranked] == [("b", 1.0), ("a", 0.0), ("c", 0.0)]
    assert ranking.ranked[2].reason == "score 0.000: nodes_free is not known"
    assert not built_in().build("weighted", {"weights": "nodes_free - 2*load"}).wants_bids
    assert built_in().build("weighted", {"weights": "nodes_free + cost"}).wants_bids


@pytest.mark.parametrize(
    "weights", ["", "0.6*", "start cost", "start + start", "0*start", "2**start", "start +", "1e9*x"]
)
def test_weights_that_cannot_be_read_are_refused(weights: str) -> None:
    with pytest.raises(Invalid):
        built_in().build("weighted", {"weights": weights})


@given(st.lists(st.one_of(st.none(), st.floats(-1e308, 1e308)), min_size=1, max_size=6), st.sampled_from("+-"))
@settings(max_examples=100, deadline=None)
def test_scores_of_weighted_lie_between_0_and_1_for_any_numbers(values: list[float | None], sign: str) -> None:
    fleet = [a_cluster(f"c{i}", **({} if value is None else {"x": value})) for i, value in enumerate(values)]
    for entry in choose("weighted", *fleet, weights=f"{sign}x").ranked:
        assert entry.score is not None
        assert -1e-9 <= entry.score <= 1 + 1e-9


@given(st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(0, 3))), max_size=7))
@settings(max_examples=100, deadline=None)
def test_least_agrees_with_taking_the_best_out_again_and_again(rows: list[tuple[bool, int | None]]) -> None:
    fleet = [
        a_cluster(f"c{i}", Fit.NOW if now else Fit.LATER, **({} if x is None else {"x": x}))
        for i, (now, x) in enumerate(rows)
    ]
    left, expected = list(fleet), []
    while left:
        best = left[0]
        for other in left[1:]:
            if _better(other, best):
                best = other
        left.remove(best)
        expected.append(best.name)
    assert order(choose("least", *fleet, key="x")) == expected


def _better(one: Candidate, other: Candidate) -> bool:
    """Known before unknown, now before later, less before more, and at last by name."""
    if ("x" in one.state) != ("x" in other.state):
        return "x" in one.state
    if one.fit is not other.fit:
        return one.fit is Fit.NOW
    if one.state.get("x") != other.state.get("x"):
        return one.state["x"] < other.state["x"]  # type: ignore[operator]  # numbers, by the strategy above
    return one.name < other.name


def test_an_unknown_policy_answers_with_the_nearest_name() -> None:
    with pytest.raises(UnknownPolicy, match="there is no policy 'constrain'; did you mean 'constraint'"):
        built_in().build("constrain", {})
    with pytest.raises(UnknownPolicy, match="there are constraint, cost, first"):
        built_in().build("zzz", {})


def a_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "rainbow.policies")


def test_a_plugin_that_does_not_load_is_kept_with_its_cause_and_the_others_work() -> None:
    table = installed(
        [
            a_point("broken", "no_such_module:thing"),
            a_point("again", "rainbow_sched.selection.policies.standard_policies:First.from_options"),
        ]
    )
    assert table.build("again", {}).rank([a_cluster("a")], Demand(), Random(0)).ranked[0].name == "a"
    with pytest.raises(UnknownPolicy, match="does not load: ModuleNotFoundError: No module named 'no_such_module'"):
        table.build("broken", {})
    listed = {line.name: line for line in table.listing()}
    assert "No module named" in listed["broken"].error
    assert listed["again"].origin == "rainbow_sched.selection.policies.standard_policies:First.from_options"
    assert listed["random"] == ("random", "built in", "")


def test_options_that_are_not_unicode_are_refused_each_time() -> None:
    for _ in range(2):  # what failed is not kept
        with pytest.raises(Invalid, match="the text is not valid Unicode"):
            built_in().build("constraint", {"priorities": "\ud800"})


def test_a_table_builds_a_built_in_policy_once_per_options_and_a_plugin_each_time() -> None:
    table = installed([a_point("other", "rainbow_sched.selection.policies.standard_policies:Least.from_options")])
    assert table.build("least", {"key": "a"}) is table.build("least", {"key": "a"})
    assert table.build("least", {"key": "a"}) != table.build("least", {"key": "b"})
    assert table.build("other", {}) is not table.build("other", {})
    for number in range(3 * MAX_CACHED_POLICIES):
        table.build("least", {"key": f"k{number}"})
    assert len(table._built) <= MAX_CACHED_POLICIES


def test_a_plugin_cannot_take_the_name_of_a_built_in_policy() -> None:
    table = installed([a_point("random", "rainbow_sched.selection.policies.standard_policies:First.from_options")])
    assert table.factories["random"] is POLICIES["random"]
    assert any("the name is already used by a built-in policy" in line.error for line in table.listing())


def test_an_error_of_a_policy_that_cannot_be_built_names_the_policy() -> None:
    table = installed([a_point("broken", "json:loads")])  # refuses options that are not text
    with pytest.raises(PolicyError, match="policy 'broken' cannot be built: TypeError"):
        table.build("broken", {})
