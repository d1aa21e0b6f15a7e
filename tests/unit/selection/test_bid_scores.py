"""Bids are held against what came: a cluster that is too optimistic is corrected, and stops winning by it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.bid import NO_RECORD, Bid, BidSource, TrackRecord
from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.bid_scores import MAX_BIAS, after_end, after_start, bias, corrected, cost_bias, estimate
from rainbow_sched.selection.decisions import decide
from tests.support.candidates import NOW, a_bid, a_cluster, a_question


def after(jobs: int, predicted: float, actual: float, record: TrackRecord = NO_RECORD) -> TrackRecord:
    for _ in range(jobs):
        record = after_start(record, a_bid("c", predicted), actual)
    return record


def test_a_bidder_three_times_too_optimistic_no_longer_wins_by_lying_after_50_jobs() -> None:
    rng = Random(3)
    records = {"liar": NO_RECORD, "honest": NO_RECORD}
    won: list[str] = []
    for _ in range(80):
        waits = {name: rng.uniform(200, 400) for name in records}
        said = {"liar": waits["liar"] / 3, "honest": waits["honest"]}
        fleet = [a_cluster(name, record=records[name], bid=a_bid(name, said[name])) for name in records]
        winner = decide(a_question(*fleet, policy="start")).winner
        assert winner is not None
        won.append(winner)
        for name in records:  # both have other work, so that both go on being scored
            records[name] = after_start(records[name], a_bid(name, said[name]), waits[name])
    assert won[:3] == ["liar", "liar", "liar"]
    fair = won[50:].count("liar")
    assert 5 < fair < 25, "after 50 jobs it wins about as often as its real waits deserve"
    assert bias(records["liar"]) > 2
    assert bias(records["honest"]) == pytest.approx(1.0)


def test_a_bidder_that_always_says_at_once_and_never_is_loses_too() -> None:
    fleet = [
        a_cluster("liar", record=after(50, 0.0, 600.0), bid=a_bid("liar", 0.0)),
        a_cluster("honest", bid=a_bid("honest", 300.0)),
    ]
    decision = decide(a_question(*fleet, policy="start"))
    assert decision.winner == "honest"
    rows = {row.name: row for row in decision.rows()}
    assert rows["liar"].estimate["start"] == pytest.approx(600.0)
    assert rows["liar"].notes == ("its waits are 11.0 times what it bids: corrected",)


def test_a_cluster_that_is_better_than_its_word_is_trusted_more() -> None:
    assert corrected(a_bid("c", 600.0), after(20, 600.0, 30.0), NOW).start_p50 == pytest.approx(30.0)


def test_the_record_tells_how_often_the_p90_held() -> None:
    record = NO_RECORD
    for waited in (10.0, 10.0, 500.0, 10.0):
        record = after_start(record, a_bid("c", 20.0, start_p90=100.0), waited)
    assert record.p90_held == pytest.approx(0.75, abs=0.03)
    assert record.jobs == 4
    assert NO_RECORD.p90_held is None


def test_newer_jobs_weigh_more() -> None:
    changed = after(40, 100.0, 100.0, after(40, 100.0, 900.0))
    assert 1.0 < bias(changed) < 1.6
    assert changed.wait is not None
    assert changed.wait < 250


def test_the_first_jobs_count_in_part() -> None:
    assert 1.0 < bias(after(1, 0.0, 600.0)) < 2.0 < bias(after(5, 0.0, 600.0))


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), max_size=20), st.floats(0, 4e11))
@settings(max_examples=100, deadline=None)
def test_a_correction_is_always_bounded_and_keeps_a_valid_bid(pairs: list[tuple[float, float]], start: float) -> None:
    record = NO_RECORD
    for predicted, actual in pairs:
        record = after_start(record, a_bid("c", predicted), actual)
    assert 1 / MAX_BIAS <= bias(record) <= MAX_BIAS
    bid = corrected(a_bid("c", start, start_p90=start * 2), record, NOW)
    assert bid.start_p50 is not None
    assert bid.start_p90 is not None
    assert 0 <= bid.start_p50 <= bid.start_p90


def test_time_gone_by_since_the_question_is_taken_off() -> None:
    assert corrected(a_bid("c", 100.0), NO_RECORD, NOW + 30).start_p50 == 70.0
    assert corrected(a_bid("c", 100.0), NO_RECORD, NOW + 300).start_p50 == 0.0


def test_costs_are_scored_when_the_job_ends() -> None:
    record = NO_RECORD
    for _ in range(20):
        record = after_end(record, a_bid("c", cost=2.0), 6.0)
    assert cost_bias(record) == pytest.approx(3.0, rel=0.01)
    assert corrected(a_bid("c", cost=2.0), record, NOW).cost == pytest.approx(6.0, rel=0.01)
    assert after_end(NO_RECORD, a_bid("c"), 5.0) is NO_RECORD


def test_a_job_without_a_bid_leaves_its_wait_as_history() -> None:
    record = after_start(NO_RECORD, None, 42.0)
    assert (record.wait, record.jobs) == (42.0, 0)
    assert estimate(a_cluster("c", Fit.LATER, record=record), Demand())[:2] == (42.0, 42.0)


def test_a_record_survives_storage() -> None:
    record = after(7, 10.0, 30.0)
    assert TrackRecord.from_mapping(record.to_mapping()) == record
    assert TrackRecord.from_mapping({}) is NO_RECORD


def test_an_estimate_names_its_source() -> None:
    demand = Demand(duration=3600.0)
    assert estimate(a_cluster("c", bid=a_bid("c", 5.0)), demand).source is BidSource.AGENT
    assert estimate(a_cluster("c"), demand).source is BidSource.STATE
    assert estimate(a_cluster("c", Fit.LATER, record=TrackRecord(wait=1.0)), demand).source is BidSource.HISTORY
    assert estimate(a_cluster("c", Fit.LATER), demand).start is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_p50": -1.0},
        {"start_p50": float("nan")},
        {"start_p50": 10.0, "start_p90": 5.0},
        {"cost": float("inf")},
        {"runtime_factor": 0.0},
        {"valid_until": float("nan")},
        {"reason": "x" * 2_000},
    ],
)
def test_a_bid_that_makes_no_sense_cannot_be_built(wrong: dict[str, float]) -> None:
    with pytest.raises(Invalid, match="bid of c"):
        Bid(**{"cluster": "c", "yes": True, "asked_at": 0.0, "valid_until": 1.0, **wrong})  # type: ignore[arg-type]  # wrong on purpose
