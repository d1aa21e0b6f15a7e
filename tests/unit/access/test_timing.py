"""Comparing a secret takes the same time wherever it differs."""

from __future__ import annotations

import math
import statistics
import time
from random import Random

from rainbow.model.credential import Credential, Kind, digest

SAMPLES = 5_000
LARGEST_T = 4.5
TRIES = 4  # a busy machine disturbs a run now and then; a leak shows in every one


def welch(one: list[float], other: list[float]) -> float:
    """Welch's t, of the faster nine tenths of each."""
    a, b = (sorted(times)[: len(times) * 9 // 10] for times in (one, other))
    spread = statistics.variance(a) / len(a) + statistics.variance(b) / len(b)
    return abs(statistics.fmean(a) - statistics.fmean(b)) / math.sqrt(spread or 1e-30)


def measured(compare: object, one: str, other: str, rng: Random) -> float:
    """t between two inputs, asked for in random order."""
    times: dict[str, list[float]] = {one: [], other: []}
    order = [one, other] * SAMPLES
    rng.shuffle(order)
    for text in order:
        began = time.perf_counter_ns()
        compare(text)  # type: ignore[operator]
        times[text].append(time.perf_counter_ns() - began)
    return welch(times[one], times[other])


def test_a_secret_wrong_at_its_start_and_at_its_end_take_the_same_time() -> None:
    secret = "rbw_usr_abcdefabcdef_" + "k" * 43
    stored = Credential(
        id="abcdefabcdef", kind=Kind.USER, digest=digest(secret), owner="ana", scopes=(), created_at=0.0
    )
    early, late = "X" + secret[1:], secret[:-1] + "X"
    found = [measured(stored.matches, early, late, Random(n)) for n in range(TRIES)]
    assert min(found) < LARGEST_T, found


def test_the_measurement_would_see_a_comparison_that_stops_early() -> None:
    secret = "k" * 64

    def naive(text: str) -> bool:
        return all(mine == theirs for mine, theirs in zip(secret, text, strict=True))

    assert measured(naive, "X" + secret[1:], secret[:-1] + "X", Random(1)) > LARGEST_T
