"""Arrays of jobs: `1-9:2,20` as the indices it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rainbow_sched.model.errors import Invalid

MAX_ARRAY = 10_000
ARRAY_LABEL = "array_index"  # the label under which a member of an array carries its index
_INDEX = re.compile(r"[0-9]{1,9}")
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def array_indices(text: str) -> list[int]:
    """`1-9:2,20` as 1, 3, 5, 7, 9, 20."""
    indices: dict[int, None] = {}
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if not found:
            raise Invalid(f"{part!r} is not part of an array; write for example 1-100, 0-9:3 or 1,5,7-9")
        first = int(found[1])
        last, step = int(found[2] or first), int(found[3] or 1)
        if last < first or step < 1 or (last - first) // step >= MAX_ARRAY:
            raise Invalid(f"{part!r}: an array counts upwards and has at most {MAX_ARRAY} members")
        indices.update(dict.fromkeys(range(first, last + 1, step)))
        if len(indices) > MAX_ARRAY:
            raise Invalid(f"an array has at most {MAX_ARRAY} members")
    return list(indices)


def array_index(labels: Mapping[str, str]) -> int | None:
    """The index of a member of an array; None for any other job, whatever its owner wrote under that label."""
    text = labels.get(ARRAY_LABEL, "")
    return int(text) if _INDEX.fullmatch(text) else None
