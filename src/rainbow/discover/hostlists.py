"""Node names in short, as managers print them: `n[1-3,7],g1` is five names, and back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from rainbow.model.errors import Invalid, TooLarge

MAX_NAMES = 200_000
_PIECE = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]|,")
_RANGE = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,12})", re.ASCII | re.DOTALL)


def expand(text: str) -> list[str]:
    """All names of a hostlist, in order; `(null)` and nothing are none."""
    if text in ("", "(null)"):
        return []
    names: list[str] = []
    choices: list[list[str]] = []
    for piece in [*_PIECE.findall(text), ","]:
        if piece == ",":
            names += map("".join, itertools.product(*choices)) if choices else ()
            choices = []
        else:
            choices.append(numbers(piece[1:-1], text) if piece[0] == "[" else [piece])
        if len(names) > MAX_NAMES:
            raise TooLarge(f"more than {MAX_NAMES} names in {text[:60]!r}")
    return names


def numbers(ranges: str, text: str = "") -> list[str]:
    """`0-2,07` as 0, 1, 2, 07; leading zeros are kept."""
    found: list[str] = []
    for part in ranges.split(","):
        span = _RANGE.fullmatch(part.strip())
        if span is None:
            raise Invalid(f"{part[:30]!r} in {(text or ranges)[:60]!r} is no range of numbers such as 0-63")
        first, last = int(span[1]), int(span[2] or span[1])
        if last - first >= MAX_NAMES:
            raise TooLarge(f"more than {MAX_NAMES} numbers in {part[:30]!r}")
        width = len(span[1]) if span[1].startswith("0") else 1
        found += [f"{number:0{width}}" for number in range(first, last + 1)]
    return found


def idset(value: object) -> list[int]:
    """The numbers of an idset: `0-3,7`, or one number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        raise Invalid(f"{value!r} is no set of numbers such as 0-3,7")
    return [int(number) for number in numbers(value.strip("[]"))]


def shorten(names: Iterable[str]) -> str:
    """Names in short: neighbours with consecutive numbers share a bracket."""
    return ",".join(_runs(names))


def _runs(names: Iterable[str]) -> Iterator[str]:
    def split(name: str) -> tuple[str, int, int]:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            return name, -1, 0
        return found[1], int(found[2]), len(found[2]) if found[2].startswith("0") else 1

    for (prefix, width), group in itertools.groupby(map(split, names), key=lambda part: (part[0], part[2])):
        ids = [number for _, number, _ in group]
        if width == 0:
            yield from [prefix] * len(ids)
            continue
        spans: list[list[int]] = []
        for number in ids:
            if spans and number == spans[-1][1] + 1 and len(f"{number:0{width}}") == len(f"{spans[-1][0]:0{width}}"):
                spans[-1][1] = number
            else:
                spans.append([number, number])
        texts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in spans]
        single = len(spans) == 1 and spans[0][0] == spans[0][1]
        yield prefix + (texts[0] if single else f"[{','.join(texts)}]")
