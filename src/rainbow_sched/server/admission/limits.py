"""Configurable limits, rates by token bucket, and limits on concurrent work.

A call is admitted, or rejected with `Exhausted` and a time after which to retry. Health checks are never rejected,
Syncs of agents only by their own rate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, fields

from rainbow_sched.model.errors import Exhausted, Invalid

MAX_BUCKETS = 20_000  # callers or addresses; bounds the memory of the rates


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Limits that an operator can configure; rates are per second."""

    rate: float = 1_000.0  # calls of one principal per second
    burst: float = 2_000.0  # calls of one principal at once, after a pause
    refused_rate: float = 20.0  # calls of one address per second with an invalid credential
    refused_burst: float = 40.0  # such calls at once, after a pause
    in_flight: int = 10_000  # concurrent calls in total, without long polls and streams
    submitting: int = 5_000  # concurrent submissions among these
    lag: float = 5.0  # seconds of event loop delay above which submissions are rejected
    wait: float = 10.0  # longest expected seconds in the queue for a submission, or a third of its deadline if shorter
    deadline: float = 60.0  # seconds for a call with one response
    upload_deadline: float = 600.0  # seconds for a call that carries a graph
    streams: int = 1_000  # open streams of one principal
    queued: int = 1_000_000  # jobs of one owner that have not ended
    connections: int = 20_000  # in total
    connections_per_address: int = 2_000  # so that one address does not take all connections
    strangers: int = 100  # connections of one address without a valid credential

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise Invalid(f"the limit {one.name} must be above 0")


class TokenBuckets:
    """One token bucket per key. Full buckets are deleted when there are too many."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Take `cost` tokens and return 0, or return the seconds until they are available and take nothing."""
        if key not in self._buckets and len(self._buckets) >= MAX_BUCKETS:
            self._prune(now)
        tokens, at = self._filled(key, now)
        missing = cost - tokens
        self._buckets[key] = (tokens if missing > 0 else -missing, at)
        return missing / self._rate if missing > 0 else 0.0

    def empty(self, key: str, now: float) -> float:
        """Return the seconds until a token is available, 0 if one is. Takes nothing."""
        tokens, _ = self._filled(key, now)
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._rate

    def _filled(self, key: str, now: float) -> tuple[float, float]:
        tokens, at = self._buckets.get(key, (self._burst, now))
        return (min(self._burst, tokens + (now - at) * self._rate), now) if now > at else (tokens, at)

    def _prune(self, now: float) -> None:
        """Delete full buckets; if too many remain, delete the least recently used half."""
        full = self._burst / self._rate
        used = {
            key: (tokens, at) for key, (tokens, at) in self._buckets.items() if now - at < full and tokens < self._burst
        }
        if len(used) >= MAX_BUCKETS:
            used = dict(sorted(used.items(), key=lambda item: item[1][1])[len(used) // 2 :])
        self._buckets = used


class ConcurrencyLimit:
    """Limits concurrent users in total and per key; others wait up to a timeout."""

    def __init__(self, total: int, per_key: int, timeout: float) -> None:
        self._total, self._per_key, self._timeout = asyncio.Semaphore(total), per_key, timeout
        self._by_key: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, key: str) -> AsyncIterator[None]:
        """Occupy a slot while the block runs."""
        own, waiting = self._by_key.get(key) or (asyncio.Semaphore(self._per_key), 0)
        if waiting >= 100 * self._per_key:
            raise Exhausted("too many of your calls wait to be read; try again later", retry_after=5.0)
        self._by_key[key] = (own, waiting + 1)
        try:
            async with asyncio.timeout(self._timeout) as timer, own, self._total:
                timer.reschedule(None)
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise Exhausted("too many messages are being read; try again later", retry_after=5.0) from None
        finally:
            own, waiting = self._by_key[key]
            if waiting > 1:
                self._by_key[key] = (own, waiting - 1)
            else:
                del self._by_key[key]


class RateLimiter:
    """Admits or rejects calls by the rate of their callers, and counts open streams."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._calls = TokenBuckets(limits.rate, limits.burst)
        self._refused = TokenBuckets(limits.refused_rate, limits.refused_burst)
        self._streams: Counter[str] = Counter()

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
                f"more than {self._limits.rate:g} calls per second; try again later", retry_after=round(wait, 3)
            )

    @contextlib.contextmanager
    def stream(self, key: str) -> Iterator[None]:
        """Count a stream that stays open while the block runs; raise Exhausted if there are too many."""
        if self._streams[key] >= self._limits.streams:
            raise Exhausted(f"at most {self._limits.streams} open streams at a time", retry_after=5.0)
        self._streams[key] += 1
        try:
            yield
        finally:
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]
