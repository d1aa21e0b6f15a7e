"""Properties that try many generated cases: all of them in `make test`, the first of them in `make check`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Of the cases that a property names, how large a part is tried. Above 1 the seeds are others on every run.
PART = float(os.environ.get("RAINBOW_CASES", "0.25"))


def over_seeds(cases: int) -> Callable[[Callable[[int], None]], Callable[[], None]]:
    """The test holds for every seed: `cases` of them are tried where RAINBOW_CASES is 1, as in `make test`."""
    chosen = settings(max_examples=round(cases * PART), deadline=None, derandomize=PART <= 1, database=None)

    def decorate(test: Callable[[int], None]) -> Callable[[], None]:
        return pytest.mark.over_seeds(chosen(given(st.integers(0, 2**40))(test)))

    return decorate
