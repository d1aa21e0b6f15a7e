"""Compare the winning bid of a job with its actual wait and cost."""

from __future__ import annotations

from collections.abc import Callable

from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.bid import Bid, TrackRecord
from rainbow_sched.model.job import Job
from rainbow_sched.selection.bid_scores import after_end, after_start
from rainbow_sched.selection.record import bid_from_json
from rainbow_sched.service.effects import Effects
from rainbow_sched.store.base import Tx


def score_start(tx: Tx, fx: Effects, attempt: Attempt, started: float) -> None:
    """Record the actual wait of a job that has started."""
    bid = _winning_bid(tx, attempt)
    asked_at = attempt.created_at if bid is None else bid.asked_at
    _update_record(tx, fx, attempt, lambda record: after_start(record, bid, started - asked_at))


def score_end(tx: Tx, fx: Effects, job: Job, attempt: Attempt, started: float | None, ended: float) -> None:
    """Record the actual cost of a job that succeeded: the bid's cost for the part of the duration that it ran."""
    bid = _winning_bid(tx, attempt)
    if bid is None or bid.cost is None or started is None:
        return
    promised = (from_json(job.spec).duration or 0.0) * bid.runtime_factor
    if promised > 0:
        cost = bid.cost * max(0.0, ended - started) / promised
        _update_record(tx, fx, attempt, lambda record: after_end(record, bid, cost))


def _winning_bid(tx: Tx, attempt: Attempt) -> Bid | None:
    record = tx.decision(attempt.job, attempt.n)
    stored = None if record is None else record.decision().own["bids"].get(attempt.cluster)
    return None if stored is None else bid_from_json(attempt.cluster, stored)


def _update_record(tx: Tx, fx: Effects, attempt: Attempt, after: Callable[[TrackRecord], TrackRecord]) -> None:
    cluster = tx.cluster(attempt.cluster)
    if cluster is not None:
        record = after(TrackRecord.from_mapping(cluster.record))
        fx.changed(tx.update_cluster(cluster.id, record=record.to_mapping()))
