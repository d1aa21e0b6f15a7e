"""Score bids against what happened, and correct later bids by the cluster's bias.

A cluster's bias is the mean ratio of actual to predicted wait; newer jobs have more weight. One
minute is added to both before dividing. Without it, a cluster that always bids 0 and starts jobs
ten minutes late would have no ratio and would keep winning.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from rainbow_sched.model.bid import MAX_NUMBER, Bid, BidSource, TrackRecord
from rainbow_sched.model.candidate import Candidate, Demand
from rainbow_sched.model.match import Fit

DECAY = 0.95  # weight of the past after each new job
TRUSTED_AFTER_JOBS = 5  # with fewer jobs the bias counts in part
GRACE_SECONDS = 60.0  # added to both waits
MAX_BIAS = 100.0  # factor in both directions; bounds the effect of one wrong bid
COST_FLOOR = 0.01  # added to both costs, so that a ratio of zeros is defined


class Estimate(NamedTuple):
    """Predicted start and cost of a job on one cluster, and the source of the prediction."""

    start: float | None  # median, in seconds from now
    start_p90: float | None
    runtime_factor: float
    cost: float | None
    source: BidSource


def after_start(record: TrackRecord, bid: Bid | None, waited: float) -> TrackRecord:
    """Return the record of a job that started `waited` seconds after the bid request; without a bid only the wait."""
    waited = max(0.0, waited)
    if bid is None or bid.start_p50 is None:
        return replace(record, wait=_mean(record.wait, waited))
    p90 = bid.start_p90 if bid.start_p90 is not None else bid.start_p50
    ratio = (waited + GRACE_SECONDS) / (bid.start_p50 + GRACE_SECONDS)
    return replace(
        record,
        jobs=record.jobs + 1,
        weight=record.weight * DECAY + 1.0,
        held=record.held * DECAY + (1.0 if waited <= p90 else 0.0),
        log_bias=record.log_bias * DECAY + math.log(_bounded(ratio)),
        wait=_mean(record.wait, waited),
    )


def after_end(record: TrackRecord, bid: Bid, cost: float) -> TrackRecord:
    """Return the record after a job with this bid ended at a cost of `cost`."""
    if bid.cost is None:
        return record
    ratio = (max(0.0, cost) + COST_FLOOR) / (bid.cost + COST_FLOOR)
    return replace(
        record, costs=record.costs * DECAY + 1.0, log_cost=record.log_cost * DECAY + math.log(_bounded(ratio))
    )


def bias(record: TrackRecord) -> float:
    """Return actual wait divided by predicted wait: 1 without a record, 3 if waits are three times as long as bid."""
    if not record.weight:
        return 1.0
    trust = min(1.0, record.jobs / TRUSTED_AFTER_JOBS)
    return _bounded(math.exp(trust * record.log_bias / record.weight))


def cost_bias(record: TrackRecord) -> float:
    """Return actual cost divided by predicted cost; 1 without a record."""
    if not record.costs:
        return 1.0
    return _bounded(math.exp(min(1.0, record.costs / TRUSTED_AFTER_JOBS) * record.log_cost / record.costs))


def corrected(bid: Bid, record: TrackRecord, now: float) -> Bid:
    """Return the bid with starts and cost multiplied by the cluster's bias, less the time that passed since the bid."""
    elapsed, factor = max(0.0, now - bid.asked_at), bias(record)
    if not elapsed and factor == 1.0 and not record.costs:
        return bid

    def start(predicted: float | None) -> float | None:
        return None if predicted is None else _in_range((predicted + GRACE_SECONDS) * factor - GRACE_SECONDS - elapsed)

    cost = None if bid.cost is None else _in_range(bid.cost * cost_bias(record))
    return replace(bid, start_p50=start(bid.start_p50), start_p90=start(bid.start_p90), cost=cost)


def estimate(candidate: Candidate, demand: Demand) -> Estimate:
    """Predict start and cost from the bid, or else from the cluster's history and state."""
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
    """Return nodes (or cores) times hours times the reported rate; a job without a duration counts as one hour."""
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
    return value if before is None else before * DECAY + value * (1.0 - DECAY)
