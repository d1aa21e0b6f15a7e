"""Ranges of whole numbers such as `3-9`, and lists of them such as `3-9,12`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def parse_range(text: str, *, max_digits: int = 18) -> tuple[int, int] | None:
    """Return the first and last number of `3-9` or `7`; None if the text is neither. The last may be the smaller."""
    found = _RANGE.fullmatch(text)
    if found is None or max(map(len, text.split("-"))) > max_digits:
        return None
    return int(found[1]), int(found[2] or found[1])


def format_ranges(numbers: Iterable[int], separator: str = ",") -> str:
    """Return the numbers in increasing order, consecutive ones as ranges: `3-9,12`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return separator.join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
