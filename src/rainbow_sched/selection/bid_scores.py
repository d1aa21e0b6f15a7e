"""How far to trust a bid: score it when the job starts and ends, correct the next ones by what was learned.

A cluster's bias is the mean ratio of actual to predicted wait, newer jobs weighing more. One
minute is added to both before dividing, so that "at once" can be wrong too: a bidder that
always says 0 and is ten minutes late would otherwise have no ratio, and go on winning.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from rainbow_sched.model.bid import MAX_NUMBER, Bid, BidSource, TrackRecord
from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.match import Fit

KEEP = 0.95  # what an older job still weighs after one more
TRUSTED_AFTER = 5  # jobs; before that a bias counts in part
GRACE = 60.0  # seconds added to both waits
MAX_BIAS = 100.0
COST_FLOOR = 0.01


class Estimate(NamedTuple):
    """When and at what price a job would run on a cluster, as far as anyone knows, and who says so."""

    start: float | None  # seconds from now, at even odds
    start_p90: float | None
    runtime_factor: float
    cost: float | None
    source: BidSource


def after_start(record: TrackRecord, bid: Bid | None, waited: float) -> TrackRecord:
    """The record after a job started, `waited` seconds after the bid was asked; without a bid the wait is kept."""
    waited = max(0.0, waited)
    if bid is None or bid.start_p50 is None:
        return replace(record, wait=_mean(record.wait, waited))
    by = bid.start_p90 if bid.start_p90 is not None else bid.start_p50
    ratio = (waited + GRACE) / (bid.start_p50 + GRACE)
    return replace(
        record,
        jobs=record.jobs + 1,
        weight=record.weight * KEEP + 1.0,
        held=record.held * KEEP + (1.0 if waited <= by else 0.0),
        log_bias=record.log_bias * KEEP + math.log(_bounded(ratio)),
        wait=_mean(record.wait, waited),
    )


def after_end(record: TrackRecord, bid: Bid, cost: float) -> TrackRecord:
    """The record after a job that was bid for ended and cost `cost`."""
    if bid.cost is None:
        return record
    ratio = (max(0.0, cost) + COST_FLOOR) / (bid.cost + COST_FLOOR)
    return replace(record, costs=record.costs * KEEP + 1.0, log_cost=record.log_cost * KEEP + math.log(_bounded(ratio)))


def bias(record: TrackRecord) -> float:
    """Actual wait over predicted wait; 1 without a record, 3 for a bidder three times too optimistic."""
    if not record.weight:
        return 1.0
    trust = min(1.0, record.jobs / TRUSTED_AFTER)
    return _bounded(math.exp(trust * record.log_bias / record.weight))


def cost_bias(record: TrackRecord) -> float:
    """Actual cost over predicted cost; 1 without a record."""
    if not record.costs:
        return 1.0
    return _bounded(math.exp(min(1.0, record.costs / TRUSTED_AFTER) * record.log_cost / record.costs))


def corrected(bid: Bid, record: TrackRecord, now: float) -> Bid:
    """The bid as it should be read at `now`: its starts and cost times the cluster's bias, less the time gone by."""
    gone, factor = max(0.0, now - bid.asked_at), bias(record)
    if not gone and factor == 1.0 and not record.costs:
        return bid

    def start(predicted: float | None) -> float | None:
        return None if predicted is None else _in_range((predicted + GRACE) * factor - GRACE - gone)

    cost = None if bid.cost is None else _in_range(bid.cost * cost_bias(record))
    return replace(bid, start_p50=start(bid.start_p50), start_p90=start(bid.start_p90), cost=cost)


def estimate(candidate: Candidate, demand: Demand) -> Estimate:
    """From the bid where it says, else from the cluster's history and state."""
    bid = candidate.bid
    factor = bid.runtime_factor if bid else 1.0
    cost = bid.cost if bid and bid.cost is not None else cost_from_state(candidate, demand, factor)
    if bid and bid.start_p50 is not None:
        p90 = bid.start_p90 if bid.start_p90 is not None else bid.start_p50
        return Estimate(bid.start_p50, p90, factor, cost, bid.source)
    if candidate.fit is Fit.NOW:
        return Estimate(0.0, 0.0, factor, cost, BidSource.STATE)
    wait = candidate.record.wait
    return Estimate(wait, wait, factor, cost, BidSource.STATE if wait is None else BidSource.HISTORY)


def cost_from_state(candidate: Candidate, demand: Demand, runtime_factor: float = 1.0) -> float | None:
    """Nodes (or cores) times hours times the reported rate; one hour where no duration is said."""
    hours = (demand.duration or 3_600.0) * runtime_factor / 3_600.0
    for key, units in (("cost_per_node_hour", demand.nodes), ("cost_per_core_hour", demand.cores)):
        rate = candidate.state.get(key)
        if isinstance(rate, int | float) and not isinstance(rate, bool) and units:
            return max(0.0, float(rate) * units * hours)
    return None


def _in_range(value: float) -> float:
    return min(MAX_NUMBER, max(0.0, value))


def _bounded(ratio: float) -> float:
    return min(MAX_BIAS, max(1.0 / MAX_BIAS, ratio))


def _mean(before: float | None, value: float) -> float:
    return value if before is None else before * KEEP + value * (1.0 - KEEP)
