"""Compressed lists: hostlists such as `n[0-63]` (RFC 29) and idsets such as `0-3,7` (RFC 22)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.ranges import parse_range

_PART = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,12})", re.ASCII | re.DOTALL)
_SPECIAL = frozenset(",[]")
MAX_ENTRIES = 200_000  # names or numbers, unless the caller sets a lower limit


def expand(text: str, *, limit: int = MAX_ENTRIES, where: str = "") -> list[str]:
    """Return all names of a hostlist, in order; raise `TooLarge` for more than `limit`."""
    names: list[str] = []
    if not text:
        return names
    for entry in _split(text, where):
        parts: list[Sequence[str]] = []
        total = 1
        for part in _PART.findall(entry):
            choices = _bracket(part[1:-1], limit, where) if part[0] == "[" else [part]
            total *= len(choices)
            if len(names) + total > limit:
                raise TooLarge(f"more than {limit} names in {text[:60]!r}", where=where)
            parts.append(choices)
        names += map("".join, itertools.product(*parts))
    return names


def _split(text: str, where: str) -> Iterable[str]:
    """Split at the commas outside of brackets."""
    start = depth = 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise Invalid(f"{text[:60]!r} is not a hostlist; write for example n[0-63]", where=where)
        if char == "," and not depth:
            yield text[start:i]
            start = i + 1
    if depth:
        raise Invalid(f"a bracket in {text[:60]!r} is not closed", where=where)
    yield text[start:]


def _bracket(text: str, limit: int, where: str) -> list[str]:
    numbers: list[str] = []
    for first, last, width in _ranges(text, where):
        if len(numbers) + last - first + 1 > limit:
            raise TooLarge(f"more than {limit} names in [{text[:60]}]", where=where)
        numbers += [f"{number:0{width}}" for number in range(first, last + 1)]
    return numbers


def _ranges(text: str, where: str) -> Iterable[tuple[int, int, int]]:
    for part in text.split(","):
        found = parse_range(part, max_digits=12)
        if found is None or found[1] < found[0]:
            raise Invalid(f"{part[:30]!r} is not a range of numbers; write for example 0-63", where=where)
        yield *found, len(part.partition("-")[0]) if part.startswith("0") else 1


def parse_idset(text: object, *, limit: int = MAX_ENTRIES, where: str = "") -> list[int]:
    """Return the numbers of an idset such as `0-3,7`, or of a single number."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return [text]
    if not isinstance(text, str):
        raise Invalid(f"{text!r} is not a set of numbers; write for example 0-3,7", where=where)
    numbers: list[int] = []
    for first, last, _ in _ranges(text.removeprefix("[").removesuffix("]"), where):
        if len(numbers) + last - first + 1 > limit:
            raise TooLarge(f"more than {limit} numbers in {text[:60]!r}", where=where)
        numbers += range(first, last + 1)
    return numbers


def collapse(names: Sequence[str]) -> str | None:
    """Return the names as a hostlist in their order, or None if a name cannot be written in one."""
    entries: list[tuple[str, list[tuple[int, int, int]]]] = []  # prefix or whole name, and runs: first, last, width
    for name in names:
        if not name or not _SPECIAL.isdisjoint(name):
            return None
        match = _NUMBERED.fullmatch(name)
        if match is None:
            entries.append((name, []))
            continue
        prefix, number, width = match[1], int(match[2]), len(match[2]) if match[2].startswith("0") else 1
        if not entries or not entries[-1][1] or entries[-1][0] != prefix:
            entries.append((prefix, []))
        runs = entries[-1][1]
        if runs and number == runs[-1][1] + 1 and f"{number:0{runs[-1][2]}}" == match[2]:  # same width as the run
            runs[-1] = (runs[-1][0], number, runs[-1][2])
        else:
            runs.append((number, number, width))
    return ",".join(prefix + _format_runs(runs) for prefix, runs in entries)


def _format_runs(runs: Sequence[tuple[int, int, int]]) -> str:
    text = ",".join(f"{a:0{w}}" if a == b else f"{a:0{w}}-{b:0{w}}" for a, b, w in runs)
    return f"[{text}]" if "," in text or "-" in text else text
