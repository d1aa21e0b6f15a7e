"""Bids: a cluster's estimate of when it would start a job and at what cost, and how accurate its bids were."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from rainbow_sched.model.errors import Invalid

MAX_REASON_CHARS = 1_024  # bounds the memory of a bid
MAX_NUMBER = 1e12  # seconds or cost; a larger number is an error


class BidSource(enum.StrEnum):
    """Source of an estimate."""

    AGENT = "agent"  # the cluster's agent
    HISTORY = "history"  # waiting times of earlier jobs on this cluster
    STATE = "state"  # the reported state, and whether the job fits now


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """Whether and when a cluster would start a job, at what cost, and until when the bid is valid. Not a promise."""

    cluster: str
    yes: bool
    asked_at: float  # seconds since the epoch; the two start times count from here
    valid_until: float
    reason: str = ""
    start_p50: float | None = None  # seconds of waiting: half of the jobs start by then
    start_p90: float | None = None
    runtime_factor: float = 1.0  # 2.0: the job would run twice as long here as its time limit
    cost: float | None = None  # the whole job
    source: BidSource = BidSource.AGENT
    late: bool = False  # it arrived after the deadline

    def __post_init__(self) -> None:
        where = f"bid of {self.cluster}"
        for name, value in (("start_p50", self.start_p50), ("start_p90", self.start_p90), ("cost", self.cost)):
            if value is not None and not 0 <= value <= MAX_NUMBER:
                raise Invalid(f"{name} must be a number from 0 to {MAX_NUMBER:g}, not {value}", where=where)
        if self.start_p50 is not None and self.start_p90 is not None and self.start_p90 < self.start_p50:
            raise Invalid(f"start_p90 {self.start_p90} is before start_p50 {self.start_p50}", where=where)
        if not 0 < self.runtime_factor <= 1_000:
            raise Invalid(f"runtime_factor must be above 0 and at most 1000, not {self.runtime_factor}", where=where)
        if not (math.isfinite(self.asked_at) and math.isfinite(self.valid_until)):
            raise Invalid("asked_at and valid_until must be finite times", where=where)
        if len(self.reason) > MAX_REASON_CHARS:
            raise Invalid(f"a reason has at most {MAX_REASON_CHARS} characters", where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRecord:
    """Accuracy of a cluster's bids; newer jobs weigh more (see `selection/bid_scores.py`)."""

    jobs: int = 0  # bids scored in all
    weight: float = 0.0  # sum of the weights of the jobs below; recent ones count more
    held: float = 0.0  # weighted count of jobs that started by start_p90
    log_bias: float = 0.0  # weighted sum of ln(actual wait / predicted wait)
    log_cost: float = 0.0  # weighted sum of ln(actual cost / predicted cost)
    costs: float = 0.0  # sum of the weights in log_cost
    wait: float | None = None  # weighted mean of the actual waits, seconds

    @property
    def p90_held(self) -> float | None:
        """Return the share of jobs that started by their start_p90; None before the first job."""
        return self.held / self.weight if self.weight else None

    def to_mapping(self) -> dict[str, float]:
        """Return the record as the store keeps it with the cluster."""
        known = {name: value for name in _RECORD_FIELDS if (value := getattr(self, name)) is not None}
        return {**known, "jobs": float(self.jobs)}

    @classmethod
    def from_mapping(cls, values: Mapping[str, float]) -> TrackRecord:
        """Read the result of `to_mapping`; an empty mapping gives NO_RECORD."""
        if not values:
            return NO_RECORD
        known = {name: values[name] for name in _RECORD_FIELDS if name in values}
        return cls(**{**known, "jobs": int(known.get("jobs", 0))})  # type: ignore[arg-type]  # all others are floats


_RECORD_FIELDS = tuple(field.name for field in fields(TrackRecord))
NO_RECORD = TrackRecord()
