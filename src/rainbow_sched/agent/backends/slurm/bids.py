"""Start estimates of Slurm (`sbatch --test-only`), cached and rate limited."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_STARTS = re.compile(r"to start at (\d+)\b")
_REFUSED = re.compile(r"allocation failure: (.+)")
QUERIES_PER_SECOND = 5.0  # queries per second at most: each one uses up a job id
MAX_ESTIMATES = 500  # bounds the memory of the cache


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When it would start (seconds since the epoch), or why it never would."""

    start: float | None
    reason: str = ""


def parse_test(text: str) -> StartEstimate | None:
    """Parse stderr of `sbatch --test-only`; None if it has no estimate."""
    if starts := _STARTS.search(text):
        return StartEstimate(float(starts[1]))
    if refused := _REFUSED.search(text):
        return StartEstimate(None, refused[1].strip())
    return None


class StartEstimates:
    """Cached estimates by sbatch options, and a rate limit. The clock is passed in."""

    def __init__(self, clock: Callable[[], float], *, lifetime: float, rate: float = QUERIES_PER_SECOND) -> None:
        self._clock, self._lifetime, self._rate = clock, lifetime, rate
        self._known: dict[tuple[str, ...], tuple[float, StartEstimate]] = {}
        self._tokens, self._at = rate, clock()

    def get(self, words: tuple[str, ...], *, stale: bool = False) -> StartEstimate | None:
        """Return the last estimate; None if it has expired and `stale` ones are not wanted."""
        at, found = self._known.get(words, (0.0, None))
        return found if stale or self._clock() - at < self._lifetime else None

    def take_token(self) -> bool:
        """Take a token of the rate limit; False if there is none."""
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def put(self, words: tuple[str, ...], estimate: StartEstimate) -> None:
        if len(self._known) >= MAX_ESTIMATES:
            self._known.pop(next(iter(self._known)))
        self._known[words] = (self._clock(), estimate)
