"""The constraint policy does what the prototype's documentation says, for every example in it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.selection.policies import Ranking, built_in
from rainbow_sched.selection.policies.constraint import ConstraintPolicy, parse_program
from tests.support.candidates import a_cluster

# The two priorities of the prototype's documented server configuration, in our own words.
DOCUMENTED = """
- priority: 1
  steps:
  - filter: "nodes_free > 0"
  - calc: "build_cost=(cost_per_node_hour * (memory_per_node * seconds_per_gb)/60/60)"
  - sort_descending: build_cost
  - select: {select}
- priority: 2
  steps:
  - filter: "nodes_free > 0"
  - calc: "memory_min=min(100, memory_per_node - 100)"
  - calc: "build_cost=(cost_per_node_hour * (memory_min * seconds_per_gb)/60/60)"
  - sort_descending: build_cost
  - select: {select}
"""


def documented_state(name: str, **changes: object) -> Candidate:
    return a_cluster(name, **{"cost_per_node_hour": 3, "nodes_free": 20, "memory_per_node": 200, **changes})


def choose(priorities: str, *candidates: Candidate, seed: int = 0, **parameters: str | float) -> Ranking:
    policy = built_in().build("constraint", {"priorities": priorities})
    return policy.rank(candidates, Demand(parameters=parameters), Random(seed))


def order(ranking: Ranking) -> list[str]:
    return [entry.name for entry in ranking.ranked]


def test_the_documented_example_computes_the_documented_cost() -> None:
    ranking = choose(DOCUMENTED.format(select="random"), documented_state("keebler"), seconds_per_gb=0.4)
    assert order(ranking) == ["keebler"]
    assert ranking.ranked[0].terms == {"build_cost": pytest.approx(3 * (200 * 0.4) / 3600)}
    assert ranking.ranked[0].reason == "priority 1: build_cost=0.0666667"


def test_a_cluster_with_no_nodes_free_gets_no_work() -> None:
    full, free = documented_state("full", nodes_free=0), documented_state("free")
    ranking = choose(DOCUMENTED.format(select="random"), free, full, seconds_per_gb=2)
    assert order(ranking) == ["free"]
    assert ranking.dropped == {"full": "priority 1: nodes_free > 0 is false (nodes_free=0)"}


def test_the_documented_random_selection_reaches_every_cluster_that_is_left() -> None:
    fleet = [documented_state("a"), documented_state("b"), documented_state("c"), documented_state("d", nodes_free=0)]
    text = DOCUMENTED.format(select="random")
    winners = Counter(order(choose(text, *fleet, seed=seed, seconds_per_gb=2))[0] for seed in range(60))
    assert set(winners) == {"a", "b", "c"}
    assert min(winners.values()) > 5


def test_both_sorts_and_both_fixed_selections_work() -> None:
    fleet = [documented_state(name, cost_per_node_hour=cost) for name, cost in (("a", 2), ("b", 9), ("c", 4))]
    descending = DOCUMENTED.format(select="first")
    ascending = descending.replace("sort_descending", "sort_ascending")
    assert order(choose(descending, *fleet, seconds_per_gb=1)) == ["b", "c", "a"]
    assert order(choose(ascending, *fleet, seconds_per_gb=1)) == ["a", "c", "b"]
    assert order(choose(DOCUMENTED.format(select="last"), *fleet, seconds_per_gb=1)) == ["a", "c", "b"]


def test_the_second_documented_priority_is_tried_when_the_first_leaves_nothing() -> None:
    text = DOCUMENTED.format(select="first").replace('"nodes_free > 0"', '"nodes_free > 50"', 1)
    ranking = choose(text, documented_state("keebler"), seconds_per_gb=0.4)
    assert ranking.ranked[0].terms == {
        "memory_min": 100.0,
        "build_cost": pytest.approx(3 * (100 * 0.4) / 3600),
    }
    assert ranking.ranked[0].reason.startswith("priority 2: ")


def test_without_the_jobs_parameter_every_cluster_is_out_and_says_which_is_missing() -> None:
    ranking = choose(DOCUMENTED.format(select="random"), documented_state("keebler"))
    assert ranking.names == []
    assert ranking.dropped == {
        "keebler": "priority 1: 'seconds_per_gb' is not known; priority 2: 'seconds_per_gb' is not known"
    }


def test_a_default_keeps_jobs_without_the_parameter_choosing_by_node_cost() -> None:
    text = DOCUMENTED.format(select="last").replace("seconds_per_gb", "(seconds_per_gb ?? 1)")
    fleet = [documented_state("dear", cost_per_node_hour=9), documented_state("cheap", cost_per_node_hour=1)]
    assert order(choose(text, *fleet)) == ["cheap", "dear"]


def test_priorities_go_by_their_number_and_not_by_their_place() -> None:
    text = """
    - {priority: 10, steps: [{sort_ascending: x}]}
    - {priority: 2, steps: [{sort_descending: x}]}
    """
    assert order(choose(text, a_cluster("a", x=1), a_cluster("b", x=2))) == ["b", "a"]


def test_each_priority_starts_from_all_clusters_and_from_their_own_state() -> None:
    text = """
    - {priority: 1, steps: [{calc: "x=x + 100"}, {filter: x < 0}]}
    - {priority: 2, steps: [{filter: x < 50}]}
    """
    assert order(choose(text, a_cluster("a", x=1), a_cluster("b", x=2))) == ["a", "b"]


def test_a_calculated_variable_never_reaches_the_clusters_state() -> None:
    cluster = a_cluster("a", x=1)
    choose("- {priority: 1, steps: [{calc: y=x + 1}, {calc: x=y}]}", cluster)
    assert cluster.state == {"x": 1}


def test_the_state_wins_over_a_parameter_of_the_same_name() -> None:
    text = "- {priority: 1, steps: [{filter: x == 2}]}"
    assert order(choose(text, a_cluster("a", x=2), a_cluster("b", x=3), x=3)) == ["a"]


def test_a_null_in_the_state_is_not_known_and_hides_no_parameter() -> None:
    text = "- {priority: 1, steps: [{filter: x == 2}]}"
    assert order(choose(text, a_cluster("a", x=None), x=2)) == ["a"]
    assert order(choose(text, a_cluster("a", x=None))) == []


def test_our_own_variables_give_way_to_the_requests_and_the_clusters() -> None:
    text = "- {priority: 1, steps: [{filter: slots_now == 4 && name =~ 'a*' && nodes == 1}]}"
    ranking = choose(text, a_cluster("a"), a_cluster("ab", slots_now=1), a_cluster("b"))
    assert order(ranking) == ["a"]
    assert ranking.dropped["ab"].endswith("is false (name=ab, nodes=1, slots_now=1)")
    assert order(choose("- {priority: 1, steps: [{filter: name == 'mine'}]}", a_cluster("a"), name="mine")) == ["a"]


@pytest.mark.parametrize(
    "calc", ["ok=nodes_free>=20", "ok = nodes_free == 20", "ok=nodes_free<=20", "ok=1!=nodes_free"]
)
def test_a_calc_may_compare(calc: str) -> None:
    text = f"- {{priority: 1, steps: [{{calc: '{calc}'}}, {{filter: ok}}]}}"
    assert order(choose(text, a_cluster("a", nodes_free=20))) == ["a"]


def test_ties_stay_in_the_order_of_names_whichever_way_they_are_sorted() -> None:
    fleet = [a_cluster(name, x=1) for name in "abc"]
    for step in ("sort_ascending", "sort_descending"):
        assert order(choose(f"- {{priority: 1, steps: [{{{step}: x}}]}}", *fleet)) == ["a", "b", "c"]


def test_a_filter_that_is_a_number_keeps_nobody() -> None:
    ranking = choose("- {priority: 1, steps: [{filter: x + 1}]}", a_cluster("a", x=1))
    assert (ranking.names, ranking.dropped) == ([], {"a": "priority 1: filter x + 1 is not true or false"})


def test_texts_and_numbers_in_one_column_still_have_an_order() -> None:
    fleet = [a_cluster("a", x="t"), a_cluster("b", x=1), a_cluster("c", x=True)]
    assert sorted(order(choose("- {priority: 1, steps: [{sort_ascending: x}]}", *fleet))) == ["a", "b", "c"]


def test_a_sort_by_a_variable_that_one_cluster_lacks_leaves_it_out() -> None:
    ranking = choose("- {priority: 1, steps: [{sort_ascending: x}]}", a_cluster("a"), a_cluster("b", x=1))
    assert order(ranking) == ["b"]
    assert ranking.dropped == {"a": "priority 1: 'x' is not known"}


def test_only_a_policy_that_reads_bids_wants_them() -> None:
    def wants(text: str) -> bool:
        return built_in().build("constraint", {"priorities": text}).wants_bids

    assert wants("- {priority: 1, steps: [{sort_ascending: bid.start}]}")
    assert not wants("- {priority: 1, steps: [{sort_ascending: nodes_free}]}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs the option 'priorities'"),
        ("nodes_free > 0", "expected a list of priorities"),
        ("[]", "expected a list of priorities"),
        ("- 1", "expected a map with `priority` and `steps`"),
        ("- {priority: one, steps: [{select: first}]}", "priority must be a whole number"),
        ("- {priority: 1}", "steps must be a list"),
        ("- {priority: 1, step: []}", "did you mean 'steps'"),
        ("- {priority: 1, steps: [{fliter: x}]}", "did you mean 'filter'"),
        ("- {priority: 1, steps: [{filter: x, calc: y=1}]}", "a step must be one"),
        ("- {priority: 1, steps: [{filter: [x]}]}", "filter takes text"),
        ("- {priority: 1, steps: [{select: best}]}", "first, last or random"),
        ("- {priority: 1, steps: [{select: first}, {filter: x}]}", "select must be the last step"),
        ("- {priority: 1, steps: [{calc: x + 1}]}", "calc must be `name=expression`"),
        ("- {priority: 1, steps: [{calc: x==1}]}", "calc must be `name=expression`"),
        ("- {priority: 1, steps: [{filter: x >}]}", "a value is missing, at character 4"),
        ("- {priority: 1, steps: [{<<: x}]}", "merge keys (<<) are not supported"),
        ("- &a {priority: 1, steps: [{select: first}]}\n- *a", "anchors"),
    ],
)
def test_options_that_say_nothing_sensible_are_refused_with_their_place(text: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        built_in().build("constraint", {"priorities": text})
    assert says in str(caught.value)


def test_two_requests_with_different_options_at_the_same_time_do_not_influence_each_other() -> None:
    fleet = [a_cluster(name, x=x) for name, x in (("a", 1), ("b", 2), ("c", 3))]
    up = built_in().build("constraint", {"priorities": "- {priority: 1, steps: [{calc: v=x}, {sort_ascending: v}]}"})
    down = built_in().build("constraint", {"priorities": "- {priority: 1, steps: [{calc: v=-x}, {sort_ascending: v}]}"})
    alone = {policy: policy.rank(fleet, Demand(), Random(1)) for policy in (up, down)}
    for policy in (up, down, up, up, down):
        assert policy.rank(fleet, Demand(), Random(1)).ranked == alone[policy].ranked
    assert order(alone[up]) == ["a", "b", "c"]
    assert order(alone[down]) == ["c", "b", "a"]


def test_a_program_cannot_be_changed() -> None:
    text = "- {priority: 1, steps: [{select: first}]}"
    with pytest.raises(AttributeError):
        parse_program(text).priorities = ()  # type: ignore[misc]  # frozen: that is the test


@pytest.mark.parametrize(("text", "wanted"), [("x", False), ("state_age", True)])
def test_ages_of_reports_are_worked_out_only_for_programs_that_read_them(text: str, wanted: bool) -> None:
    policy = built_in().build("constraint", {"priorities": f"- {{priority: 1, steps: [{{sort_ascending: {text}}}]}}"})
    assert isinstance(policy, ConstraintPolicy)
    assert policy.wants_ages is wanted
