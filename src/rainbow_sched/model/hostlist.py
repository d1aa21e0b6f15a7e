"""Lists of names and numbers in short: `n[0-63]` for 64 names (RFC 29) and `0-3,7` for five numbers (RFC 22)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from rainbow_sched.model.errors import Invalid, TooLarge

_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", re.ASCII)
_PART = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,12})", re.ASCII | re.DOTALL)
_SPECIAL = frozenset(",[]")
MOST = 200_000  # names or numbers, unless the caller says less


def expand(text: str, *, limit: int = MOST, where: str = "") -> list[str]:
    """All names of a hostlist, in order; more than `limit` are refused before they are made."""
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
    """Entries between commas that stand outside of brackets."""
    start = depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise Invalid(f"{text[:60]!r} is no list of names; write for example n[0-63]", where=where)
        if letter == "," and not depth:
            yield text[start:i]
            start = i + 1
    if depth:
        raise Invalid(f"a bracket in {text[:60]!r} is not closed", where=where)
    yield text[start:]


def _bracket(text: str, limit: int, where: str) -> list[str]:
    found: list[str] = []
    for first, last, width in _ranges(text, where):
        if len(found) + last - first + 1 > limit:
            raise TooLarge(f"more than {limit} names in [{text[:60]}]", where=where)
        found += [f"{number:0{width}}" for number in range(first, last + 1)]
    return found


def _ranges(text: str, where: str) -> Iterable[tuple[int, int, int]]:
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
            raise Invalid(f"{part[:30]!r} is no range of numbers; write for example 0-63", where=where)
        padded = len(found[1]) if found[1].startswith("0") else 1
        yield int(found[1]), int(found[2] or found[1]), padded


def parse_idset(text: object, *, limit: int = MOST, where: str = "") -> list[int]:
    """The numbers of an idset such as `0-3,7`; a number alone is one, too."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return [text]
    if not isinstance(text, str):
        raise Invalid(f"{text!r} is no set of numbers; write for example 0-3,7", where=where)
    found: list[int] = []
    for first, last, _ in _ranges(text.removeprefix("[").removesuffix("]"), where):
        if len(found) + last - first + 1 > limit:
            raise TooLarge(f"more than {limit} numbers in {text[:60]!r}", where=where)
        found += range(first, last + 1)
    return found


def collapse(names: Sequence[str]) -> str | None:
    """The names in short, in their order, or None if one of them cannot be written so."""
    entries: list[str] = []
    prefix, runs = "", list[tuple[int, int, int]]()  # first, last, width

    def flush() -> None:
        if runs:
            texts = [f"{a:0{w}}" if a == b else f"{a:0{w}}-{b:0{w}}" for a, b, w in runs]
            entries.append(prefix + (texts[0] if len(runs) == 1 and "-" not in texts[0] else f"[{','.join(texts)}]"))
            runs.clear()

    for name in names:
        if not name or not _SPECIAL.isdisjoint(name):
            return None
        found = _NUMBERED.fullmatch(name)
        if found is None:
            flush()
            entries.append(name)
            continue
        number, width = int(found[2]), len(found[2]) if found[2].startswith("0") else 1
        if not runs or found[1] != prefix:
            flush()
            prefix = found[1]
            runs.append((number, number, width))
        elif number == runs[-1][1] + 1 and f"{number:0{runs[-1][2]}}" == found[2]:  # written as the run writes it
            runs[-1] = (runs[-1][0], number, runs[-1][2])
        else:
            runs.append((number, number, width))
    flush()
    return ",".join(entries)
