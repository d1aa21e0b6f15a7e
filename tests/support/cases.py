"""Property tests over many seeds: all of them in `make test`, a part in `make check`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# The share of a property's cases that is run. Above 1 the seeds differ on every run.
PART = float(os.environ.get("RAINBOW_CASES", "0.25"))


def over_seeds(cases: int) -> Callable[[Callable[[int], None]], Callable[[], None]]:
    """Run the test for `cases` seeds, scaled by RAINBOW_CASES, which is 1 in `make test`."""
    chosen = settings(max_examples=round(cases * PART), deadline=None, derandomize=PART <= 1, database=None)

    def decorate(test: Callable[[int], None]) -> Callable[[], None]:
        return pytest.mark.over_seeds(chosen(given(st.integers(0, 2**40))(test)))

    return decorate
