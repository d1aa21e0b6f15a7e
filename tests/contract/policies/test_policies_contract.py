"""What every policy promises, built in or not: pure, complete, with a reason for each cluster."""

from __future__ import annotations

import copy
import math
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.decisions import decide, replay
from rainbow_sched.selection.policies import POLICIES, PolicyTable, Ranking, installed
from tests.support.candidates import BUILT_INS, a_bid, a_cluster, a_question, candidates, names

EXAMPLE = Path(__file__).parents[3] / "examples" / "policy-plugin"
OPTIONS = {**BUILT_INS, "nearest": {"region": "north"}}
DEMAND = Demand(nodes=2, cores=8, duration=600.0, parameters={"region": "north"})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyTable]:
    """The built-in policies and the example package, installed and found by its entry point."""
    site = tmp_path_factory.mktemp("site")
    _install(EXAMPLE, site)
    sys.path.insert(0, str(site))
    try:
        yield installed()
    finally:
        sys.path.remove(str(site))


def _install(package: Path, site: Path) -> None:
    """What an installer leaves behind: the package and its metadata, as its pyproject.toml says."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    shutil.copytree(package / "src", site, dirs_exist_ok=True)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module", params=sorted(OPTIONS))
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rank(table: PolicyTable, policy: str, fleet: Sequence[Candidate], seed: int = 7) -> Ranking:
    return table.build(policy, OPTIONS[policy]).rank(fleet, DEMAND, Random(seed))


def test_the_suite_covers_every_built_in_policy() -> None:
    assert set(BUILT_INS) == set(POLICIES)


def test_the_example_package_is_listed_with_its_origin(table: PolicyTable) -> None:
    assert ("nearest", "rainbow-nearest", "") in table.listing()


fleets = st.lists(names, unique=True, max_size=8).flatmap(
    lambda chosen: st.tuples(*(candidates(name) for name in sorted(chosen)))
)


@given(fleet=fleets, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_any_fleet_is_ranked_or_dropped_whole_with_reasons_and_twice_the_same(
    table: PolicyTable, policy: str, fleet: tuple[Candidate, ...], seed: int
) -> None:
    before = copy.deepcopy(fleet)
    ranking = rank(table, policy, fleet, seed)
    assert list(map(asdict, fleet)) == list(map(asdict, before)), "the policy changed its input"
    again = rank(table, policy, fleet, seed)
    assert (again.ranked, again.dropped) == (ranking.ranked, ranking.dropped)
    told = [entry.name for entry in ranking.ranked] + list(ranking.dropped)
    assert sorted(told) == [candidate.name for candidate in fleet]
    assert all(entry.reason for entry in ranking.ranked)
    assert all(ranking.dropped.values())
    assert all(entry.score is None or math.isfinite(entry.score) for entry in ranking.ranked)


def test_a_fleet_of_one_is_chosen(table: PolicyTable, policy: str) -> None:
    cluster = a_cluster("c1", nodes_free=9, queue_depth=1, cost_per_node_hour=2.0)
    decision = decide(a_question(cluster, policy=policy, options=OPTIONS[policy], demand=DEMAND), table)
    assert decision.winner == "c1"


def test_stale_state_is_unknown_and_the_decision_says_so(table: PolicyTable, policy: str) -> None:
    stale = a_cluster("c1", nodes_free=9, queue_depth=0, cost_per_node_hour=0.01, state_age=301.0)
    fresh = a_cluster("c2", nodes_free=9, queue_depth=5, cost_per_node_hour=9.0, slots_now=4)
    decision = decide(a_question(stale, fresh, policy=policy, options=OPTIONS[policy], demand=DEMAND), table)
    rows = {row.name: row for row in decision.rows()}
    assert "its state is 301 s old, over 300 s: treated as unknown" in rows["c1"].notes
    if policy in ("least", "constraint", "cost"):
        assert decision.winner == "c2"


def test_missing_bids_are_said_where_bids_are_wanted(table: PolicyTable, policy: str) -> None:
    fleet = (a_cluster("c1", no_bid="silent for 2 s"), a_cluster("c2", bid=a_bid("c2", 30.0, cost=1.0)))
    decision = decide(a_question(*fleet, policy=policy, options=OPTIONS[policy], demand=DEMAND), table)
    assert decision.winner is not None
    notes = {row.name: row.notes for row in decision.rows()}
    wanted = table.build(policy, OPTIONS[policy]).wants_bids
    assert notes["c1"] == (("no bid (silent for 2 s): judged on its state and history",) if wanted else ())


def test_a_cluster_that_fits_only_later_is_still_ranked(table: PolicyTable, policy: str) -> None:
    ranking = rank(table, policy, [a_cluster("c1", Fit.LATER), a_cluster("c2", Fit.LATER)])
    assert len(ranking.ranked) + len(ranking.dropped) == 2


def test_an_unknown_option_is_refused(table: PolicyTable, policy: str) -> None:
    with pytest.raises(Invalid, match="no option 'colour'"):
        table.build(policy, {**OPTIONS[policy], "colour": "red"})


def test_a_decision_by_it_replays(table: PolicyTable, policy: str) -> None:
    fleet = [a_cluster(f"c{i}", nodes_free=i, queue_depth=9 - i, cost_per_node_hour=1.5 * i) for i in range(9)]
    decision = decide(a_question(*fleet, policy=policy, options=OPTIONS[policy], demand=DEMAND, seed=11), table)
    assert replay(decision.to_json(), table) == decision


def test_the_example_chooses_the_region_that_clusters_report(table: PolicyTable) -> None:
    fleet = [a_cluster("a", slots_now=9), a_cluster("b", region="north", slots_now=1), a_cluster("c", region="south")]
    decision = decide(a_question(*fleet, policy="nearest", options={"region": "north"}), table)
    assert decision.ranked == ("b", "a", "c")
    assert table.wants_slots("nearest", {})
