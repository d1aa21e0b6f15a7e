"""Rate limits by token bucket, limits on concurrent calls, and load shedding of submissions.

Nothing here waits. A call is admitted, or rejected with `Exhausted` and a time after which to retry. Health checks are
never rejected, agents' renewals only by their own rate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from rainbow_sched.model.errors import Exhausted, Invalid

MAX_BUCKETS = 20_000
MIN_QUEUE_LENGTH = 16  # running submissions that are always admitted
SLOWER_WEIGHT, FASTER_WEIGHT = 0.05, 0.1  # weight of one measurement in the estimate; low against outliers
LAG_CHECK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Limits that an operator can configure; rates are per second."""

    rate: float = 1_000.0  # calls of one principal
    burst: float = 2_000.0
    refused_rate: float = 20.0  # calls of one address with an invalid credential
    refused_burst: float = 40.0
    in_flight: int = 10_000  # concurrent calls in total, without long polls and streams
    submitting: int = 5_000  # concurrent submissions among these
    lag: float = 5.0  # seconds of event loop delay above which submissions are rejected
    wait: float = 10.0  # longest expected seconds in the queue for a submission, or a third of its deadline if shorter
    deadline: float = 60.0  # seconds for a call with one response
    upload_deadline: float = 600.0  # seconds for a call that carries a graph
    streams: int = 1_000  # open streams of one principal
    queued: int = 1_000_000  # jobs of one owner that have not ended
    connections: int = 20_000  # in total
    connections_per_address: int = 2_000
    strangers: int = 100  # connections of one address without a valid credential

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise Invalid(f"the limit {one.name} must be above 0")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class TokenBuckets:
    """One token bucket per key. Full buckets are deleted when there are too many."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Take `cost` tokens and return 0, or return the seconds until they are available and take nothing."""
        bucket = self._filled(key, now)
        if bucket.tokens >= cost:
            bucket.tokens -= cost
            return 0.0
        return (cost - bucket.tokens) / self._rate

    def empty(self, key: str, now: float) -> float:
        """Return the seconds until a token is available, 0 if one is. Takes nothing."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        tokens = min(self._burst, bucket.tokens + max(0.0, now - bucket.at) * self._rate)
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._rate

    def _filled(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._prune(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            return bucket
        if now > bucket.at:
            bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
            bucket.at = now
        return bucket

    def _prune(self, now: float) -> None:
        """Delete full buckets; if too many remain, delete the least recently used half."""
        full = self._burst / self._rate
        used = {key: one for key, one in self._buckets.items() if now - one.at < full and one.tokens < self._burst}
        if len(used) >= MAX_BUCKETS:
            newest = sorted(used.items(), key=lambda item: item[1].at)[len(used) // 2 :]
            used = dict(newest)
        self._buckets = used


class EventLoopLag:
    """Measures the delay of the event loop, which indicates overload."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def run(self) -> None:
        """Measure until cancelled; a spike decays within a second."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_CHECK_SECONDS
            await asyncio.sleep(LAG_CHECK_SECONDS)
            late = max(0.0, loop.time() - due)
            self.seconds = late if late > self.seconds else self.seconds * 0.9 + late * 0.1


class WaitEstimate:
    """Estimates how long a submission waits for those before it, from the durations of earlier ones."""

    def __init__(self) -> None:
        self._each = 0.0  # seconds

    def took(self, ahead: int, seconds: float) -> None:
        """Add a measurement: a submission with `ahead` others before it took `seconds`."""
        change = seconds / (ahead + 1) - self._each
        self._each += change * (FASTER_WEIGHT if change < 0 else SLOWER_WEIGHT)

    def expected(self, ahead: int) -> float:
        """Return the expected seconds with `ahead` others before it; 0 for a short queue."""
        return self._each * (ahead + 1) if ahead >= MIN_QUEUE_LENGTH else 0.0


class RateLimiter:
    """Admits or rejects calls, and counts running ones."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.lag = EventLoopLag()
        self._queue = WaitEstimate()
        self._calls = TokenBuckets(limits.rate, limits.burst)
        self._refused = TokenBuckets(limits.refused_rate, limits.refused_burst)
        self._in_flight = 0
        self._submitting = 0
        self._streams: dict[str, int] = {}

    def check_address(self, address: str, now: float) -> None:
        """Raise Exhausted if the address had too many rejected calls; call it before an unknown credential's lookup."""
        wait = self._refused.empty(address, now)
        if wait:
            raise Exhausted("too many refused calls from your address; try again later", retry_after=round(wait, 3))

    def count_refusal(self, address: str, now: float) -> None:
        """Count a call with an invalid credential."""
        self._refused.take(address, now)

    def count_call(self, key: str, now: float) -> None:
        """Count a call of a principal; raise Exhausted above its rate."""
        wait = self._calls.take(key, now)
        if wait:
            raise Exhausted(
                f"more than {self.limits.rate:g} calls per second; try again later", retry_after=round(wait, 3)
            )

    def begin_call(self) -> None:
        """Count the start of a call with one response."""
        if self._in_flight >= self.limits.in_flight:
            raise Exhausted("the server has too many concurrent calls; try again later", retry_after=1.0)
        self._in_flight += 1

    def end_call(self) -> None:
        self._in_flight -= 1

    def begin_submission(self, left: float | None) -> int:
        """Count the start of a submission whose caller waits `left` more seconds; return how many run before it.

        Submissions are shed first: accepting one whose caller has given up when it finishes wastes the work.
        """
        ahead = self._submitting
        patience = self.limits.wait if left is None else min(self.limits.wait, left / 3)
        expected = self._queue.expected(ahead)
        if ahead >= self.limits.submitting or self.lag.seconds > self.limits.lag or expected > patience:
            raise Exhausted(
                "the server is busy and accepts no new jobs for a moment", retry_after=round(2.0 + 2 * expected, 3)
            )
        self._submitting += 1
        return ahead

    def end_submission(self, ahead: int, seconds: float, *, measured: bool) -> None:
        """Count the end of a submission; `measured`: use its duration for the estimate."""
        self._submitting -= 1
        if measured:
            self._queue.took(ahead, seconds)

    def open_stream(self, key: str) -> None:
        """Count the start of a stream that stays open."""
        if self._streams.get(key, 0) >= self.limits.streams:
            raise Exhausted(f"at most {self.limits.streams} open streams at a time", retry_after=5.0)
        self._streams[key] = self._streams.get(key, 0) + 1

    def close_stream(self, key: str) -> None:
        left = self._streams.get(key, 0) - 1
        if left > 0:
            self._streams[key] = left
        else:
            self._streams.pop(key, None)
