"""When Slurm would start a job, by `sbatch --test-only`: its answer read, kept for a while, and asked for seldom."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_STARTS = re.compile(r"to start at (\d+)\b")
_REFUSED = re.compile(r"allocation failure: (.+)")
SOON = 2.0  # seconds: what is said to start so soon starts now
KEPT = 30.0  # seconds for which an answer holds
RATE = 5.0  # questions per second at most: each one uses up a job id
MAX_SHAPES = 500


@dataclass(frozen=True, slots=True)
class Estimate:
    """When it would start (seconds since the epoch), or why it never would."""

    start: float | None
    reason: str = ""

    def wait(self, now: float) -> float | None:
        """Seconds until then."""
        if self.start is None:
            return None
        return 0.0 if self.start - now < SOON else self.start - now


def parse_test(text: str) -> Estimate | None:
    """What `sbatch --test-only` says on stderr; None if it says neither."""
    if starts := _STARTS.search(text):
        return Estimate(float(starts[1]))
    if refused := _REFUSED.search(text):
        return Estimate(None, refused[1].strip())
    return None


class Estimates:
    """Answers by shape, each good for a while, and a limit on how often Slurm is asked. The clock is passed in."""

    def __init__(self, clock: Callable[[], float], *, kept: float = KEPT, rate: float = RATE) -> None:
        self._clock, self._kept, self._rate = clock, kept, rate
        self._known: dict[tuple[str, ...], tuple[float, Estimate]] = {}
        self._tokens, self._at = rate, clock()

    def get(self, words: tuple[str, ...]) -> Estimate | None:
        """The answer for this shape, if it still holds."""
        found = self._known.get(words)
        return found[1] if found and self._clock() - found[0] < self._kept else None

    def stale(self, words: tuple[str, ...]) -> Estimate | None:
        """The last answer for this shape, however old."""
        found = self._known.get(words)
        return found[1] if found else None

    def may_ask(self) -> bool:
        """Take one of the questions that may be asked now; False if there is none."""
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def put(self, words: tuple[str, ...], estimate: Estimate) -> None:
        """Keep an answer."""
        if len(self._known) >= MAX_SHAPES:
            self._known.pop(next(iter(self._known)))
        self._known[words] = (self._clock(), estimate)
