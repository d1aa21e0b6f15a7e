"""How much anybody may ask for: rates by token bucket, calls under way, and what is turned away first under load.

Nothing here waits. A call is let in, or refused with `Exhausted` and the time after which
asking again makes sense. Health is never refused, agents' renewals only by their own rate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from rainbow_sched.model.errors import Exhausted, Invalid

MOST_BUCKETS = 20_000
SHORT = 16  # submissions under way that are always let in
BAD_NEWS, GOOD_NEWS = 0.05, 0.1  # how much one answer changes the estimate: one slow disk is no storm
BEAT = 0.05  # seconds between two looks at how late the event loop is


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """What an operator can set; rates are per second."""

    rate: float = 1_000.0  # calls of one principal
    burst: float = 2_000.0
    refused_rate: float = 20.0  # calls of one address whose credential is not good
    refused_burst: float = 40.0
    in_flight: int = 10_000  # calls under way, all together, without those that wait for news
    submitting: int = 5_000  # of these, submissions
    lag: float = 5.0  # seconds the event loop may be late before submissions are turned away
    wait: float = 10.0  # seconds that a submission may expect to wait; a third of its own deadline, if that is sooner
    deadline: float = 60.0  # seconds for one call with one answer
    upload_deadline: float = 600.0  # seconds for one that carries a graph
    streams: int = 1_000  # followed streams of one principal
    queued: int = 1_000_000  # jobs of one owner that have not ended
    connections: int = 20_000  # in all
    connections_per_address: int = 2_000
    strangers: int = 100  # connections of one address over which no good credential came

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise Invalid(f"the limit {one.name} must be above 0")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class TokenBuckets:
    """One token bucket per key. Full buckets are forgotten when there are too many."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Take `cost` tokens: 0 if they were there, else the seconds until they will be (then nothing is taken)."""
        bucket = self._filled(key, now)
        if bucket.tokens >= cost:
            bucket.tokens -= cost
            return 0.0
        return (cost - bucket.tokens) / self._rate

    def empty(self, key: str, now: float) -> float:
        """Seconds until there is a token; 0 if there is one. Takes nothing."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        tokens = min(self._burst, bucket.tokens + max(0.0, now - bucket.at) * self._rate)
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._rate

    def _filled(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._prune(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            return bucket
        if now > bucket.at:
            bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
            bucket.at = now
        return bucket

    def _prune(self, now: float) -> None:
        """Forget who has a full bucket; if nobody has, forget the half that spoke longest ago."""
        full = self._burst / self._rate
        kept = {key: one for key, one in self._buckets.items() if now - one.at < full and one.tokens < self._burst}
        if len(kept) >= MOST_BUCKETS:
            newest = sorted(kept.items(), key=lambda item: item[1].at)[len(kept) // 2 :]
            kept = dict(newest)
        self._buckets = kept


class EventLoopLag:
    """How late the event loop is: the sign that there is more work than the server can do."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def run(self) -> None:
        """Look again and again; a spike fades within a second."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + BEAT
            await asyncio.sleep(BEAT)
            late = max(0.0, loop.time() - due)
            self.seconds = late if late > self.seconds else self.seconds * 0.9 + late * 0.1


class Queue:
    """How long a submission waits for those before it, judged by those that have ended."""

    def __init__(self) -> None:
        self._each = 0.0  # seconds

    def took(self, ahead: int, seconds: float) -> None:
        """One was answered after `seconds`, with so many before it when it came."""
        change = seconds / (ahead + 1) - self._each
        self._each += change * (GOOD_NEWS if change < 0 else BAD_NEWS)

    def expected(self, ahead: int) -> float:
        """Seconds for one with so many before it; a short queue is no reason to turn anybody away."""
        return self._each * (ahead + 1) if ahead >= SHORT else 0.0


class RateLimiter:
    """Lets calls in or refuses them, and counts those under way."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.lag = EventLoopLag()
        self._queue = Queue()
        self._calls = TokenBuckets(limits.rate, limits.burst)
        self._refused = TokenBuckets(limits.refused_rate, limits.refused_burst)
        self._in_flight = 0
        self._submitting = 0
        self._streams: dict[str, int] = {}

    def knock(self, address: str, now: float) -> None:
        """Before an unknown credential is looked up: an address that was refused too often waits."""
        wait = self._refused.empty(address, now)
        if wait:
            raise Exhausted("too many refused calls from your address; wait a moment", retry_after=round(wait, 3))

    def refuse(self, address: str, now: float) -> None:
        """Count a call whose credential was not good."""
        self._refused.take(address, now)

    def pace(self, key: str, now: float) -> None:
        """Count a call of a principal, or refuse it."""
        wait = self._calls.take(key, now)
        if wait:
            raise Exhausted(
                f"more than {self.limits.rate:g} calls per second; wait a moment", retry_after=round(wait, 3)
            )

    def begin(self) -> None:
        """A call with one answer begins."""
        if self._in_flight >= self.limits.in_flight:
            raise Exhausted("the server has too many calls under way; wait a moment", retry_after=1.0)
        self._in_flight += 1

    def end(self) -> None:
        """It ended, however it did."""
        self._in_flight -= 1

    def submit(self, left: float | None) -> int:
        """A submission begins whose caller waits `left` seconds more; how many there are before it.

        These are the first to be turned away: a job that its submitter will not wait for is work for nothing,
        and a server that does such work does no other.
        """
        ahead = self._submitting
        patience = self.limits.wait if left is None else min(self.limits.wait, left / 3)
        expected = self._queue.expected(ahead)
        if ahead >= self.limits.submitting or self.lag.seconds > self.limits.lag or expected > patience:
            raise Exhausted(
                "the server is busy and takes no new jobs for a moment", retry_after=round(2.0 + 2 * expected, 3)
            )
        self._submitting += 1
        return ahead

    def submitted(self, ahead: int, seconds: float, *, told: bool) -> None:
        """It ended after so many seconds; `told`: which tells how long others will take."""
        self._submitting -= 1
        if told:
            self._queue.took(ahead, seconds)

    def follow(self, key: str) -> None:
        """A stream begins that stays open."""
        if self._streams.get(key, 0) >= self.limits.streams:
            raise Exhausted(f"at most {self.limits.streams} followed streams at a time", retry_after=5.0)
        self._streams[key] = self._streams.get(key, 0) + 1

    def unfollow(self, key: str) -> None:
        """It ended."""
        left = self._streams.get(key, 0) - 1
        if left > 0:
            self._streams[key] = left
        else:
            self._streams.pop(key, None)
