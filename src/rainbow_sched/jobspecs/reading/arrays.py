"""Parse job array indices such as `1-9:2,20`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.ranges import parse_range

MAX_ARRAY_JOBS = 10_000  # as many as one call submits
ARRAY_LABEL = "array_index"  # the label that holds the index of an array job
MAX_DIGITS = 9  # an index stays below 2^31
_INDEX = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")


def array_indices(text: str) -> list[int]:
    """Return the indices: `1-9:2,20` gives 1, 3, 5, 7, 9, 20."""
    indices: dict[int, None] = {}
    for part in text.split(","):
        span, colon, stride = part.strip().partition(":")
        found = parse_range(span, max_digits=MAX_DIGITS)
        if not found or (colon and not ("-" in span and _INDEX.fullmatch(stride))):
            raise Invalid(f"{part!r} is not a range of array indices; write for example 1-100, 0-9:3 or 1,5,7-9")
        (first, last), step = found, int(stride or 1)
        if last < first or step < 1 or (last - first) // step >= MAX_ARRAY_JOBS:
            raise Invalid(f"{part!r}: array indices must increase; an array has at most {MAX_ARRAY_JOBS} jobs")
        indices.update(dict.fromkeys(range(first, last + 1, step)))
        if len(indices) > MAX_ARRAY_JOBS:
            raise Invalid(f"an array has at most {MAX_ARRAY_JOBS} jobs")
    return list(indices)


def array_index(labels: Mapping[str, str]) -> int | None:
    """Return the index of an array job; None for other jobs, also if they use that label for other text."""
    text = labels.get(ARRAY_LABEL, "")
    return int(text) if _INDEX.fullmatch(text) else None
