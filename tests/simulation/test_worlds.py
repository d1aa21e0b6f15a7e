"""Thousands of seeded worlds, each checked after every step. RAINBOW_SEEDS says how many."""

from __future__ import annotations

import os

import pytest

from rainbow_sched.simulation.world import run

SEEDS = int(os.environ.get("RAINBOW_SEEDS", "1000"))
AT_ONCE = 25


@pytest.mark.timeout(105)
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_promise_is_kept_in_every_world(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        outcome = run(seed)
        if outcome.violation is not None:
            print("\n".join(outcome.trace))
            pytest.fail(f"seed {seed}: {outcome.violation}\nagain: rainbow torture --seeds 1 --start {seed} --trace")
