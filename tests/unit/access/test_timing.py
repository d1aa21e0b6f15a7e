"""Comparing a secret takes the same time wherever it differs."""

from __future__ import annotations

import math
import statistics
import time
from random import Random

from rainbow_sched.model.credential import Credential, CredentialKind, digest
from rainbow_sched.service.access.principals import has_digest

SAMPLES = 5_000
LARGEST_T = 4.5
SMALLEST_SHARE = 0.05
TRIES = 4  # a busy machine disturbs a run now and then; a leak shows in every one


def welch(one: list[float], other: list[float]) -> float:
    """Welch's t, of the faster nine tenths of each."""
    a, b = (sorted(times)[: len(times) * 9 // 10] for times in (one, other))
    spread = statistics.variance(a) / len(a) + statistics.variance(b) / len(b)
    return abs(statistics.fmean(a) - statistics.fmean(b)) / math.sqrt(spread or 1e-30)


def measured(compare: object, one: str, other: str, rng: Random) -> tuple[float, float]:
    """t between two inputs that are asked for in random order, and how far apart their medians are, as a share."""
    times: dict[str, list[float]] = {one: [], other: []}
    order = [one, other] * SAMPLES
    rng.shuffle(order)
    for text in order:
        began = time.perf_counter_ns()
        compare(text)  # type: ignore[operator]
        times[text].append(time.perf_counter_ns() - began)
    low, high = sorted(statistics.median(found) for found in times.values())
    return welch(times[one], times[other]), (high - low) / low


def tells(found: tuple[float, float]) -> bool:
    """True if the difference is sure, and larger than where two texts happen to lie in memory can make it."""
    return found[0] > LARGEST_T and found[1] > SMALLEST_SHARE


def test_a_secret_wrong_at_its_start_and_at_its_end_take_the_same_time() -> None:
    secret = "rbw_usr_abcdefabcdef_" + "k" * 43
    stored = Credential(
        id="abcdefabcdef", kind=CredentialKind.USER, digest=digest(secret), owner="ana", scopes=(), created_at=0.0
    )
    early, late = "X" + secret[1:], secret[:-1] + "X"
    found = [measured(lambda text: has_digest(stored, digest(text)), early, late, Random(n)) for n in range(TRIES)]
    assert not all(map(tells, found)), found


def test_the_measurement_would_see_a_comparison_that_stops_early() -> None:
    secret = "k" * 64

    def naive(text: str) -> bool:
        return all(mine == theirs for mine, theirs in zip(secret, text, strict=True))

    assert tells(measured(naive, "X" + secret[1:], secret[:-1] + "X", Random(1)))
