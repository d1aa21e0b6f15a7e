"""Comparison of graph values: equality across types, order of numbers and versions, microarchitectures.

Two JSON numbers compare as numbers. Everything else compares as versions: `12.2.0-rc1` is less than
`12.2.0` (semver rules where a text parses as semver), and otherwise by natural order, in
which runs of digits count as numbers (`2Aug2023` before `23Jun2022`, `1.9` before `1.10`).
Trailing zeros of a plain release are ignored: `12.2` and `12.2.0` are equal.

A version begins with a digit, or with `v` and a digit. Other values (`gcc`, `nvme`, true) never meet a
version bound.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from rainbow_sched.model.request import Scalar

VersionKey: TypeAlias = tuple[tuple[int, int, str], ...]

# Ranks of the items at one position of a key.
_PRERELEASE, _END, _NUMBER, _WORD = range(4)
_MAX_TEXT_CHARS = 256  # longer texts are compared by their beginning

# With three numbers any prerelease is semver; else a prerelease must start with a letter, so that dates such as
# 2023-08-02 keep their natural order.
_RELEASE = re.compile(
    r"(?P<release>[0-9]+(?:\.[0-9]+)*)"
    r"(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
_BEGINNING = re.compile(r"\s*v?[0-9]", re.ASCII)
_RUN = re.compile(r"[0-9]+|[^\W\d_]+", re.UNICODE)


def is_number(value: object) -> bool:
    """Return True for JSON numbers; booleans are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def texts(value: object) -> tuple[str, ...]:
    """Return the texts of a scalar. Values with a common text are equal: "5" and 5 are, "1.10" and "1.1" are not."""
    if isinstance(value, bool):
        return ("true", "True") if value else ("false", "False")
    if isinstance(value, float):
        return (str(int(value)), repr(value)) if value.is_integer() else (repr(value),)
    if isinstance(value, int):
        return (str(value), f"{value}.0")
    return (str(value),)


def is_version(value: Scalar) -> bool:
    """Return True if the text of a value begins like a version."""
    return _BEGINNING.match(texts(value)[0]) is not None


def bound_problem(bound: Scalar) -> str | None:
    """Return why no value can meet this bound of a range; None if one can."""
    if is_version(bound) or (is_number(bound) and bound == bound):
        return None
    return (
        f"{str(bound)[:40]!r} is not a bound: write a number, or a version, which begins with a digit or with v and "
        "a digit; for a word write match"
    )


def equal(one: object, other: object) -> bool:
    """Compare across types, as real graphs hold both "5" and 5."""
    if isinstance(one, bool) is not isinstance(other, bool) and is_number(one) | is_number(other):
        return False
    return not set(texts(one)).isdisjoint(texts(other))


def version_key(text: str) -> VersionKey:
    """Return a sort key in version order, for any text."""
    text = text.strip()[:_MAX_TEXT_CHARS]
    if _BEGINNING.match(text):
        text = text.removeprefix("v")
    match = _RELEASE.fullmatch(text)
    if match is not None:
        parts = match["release"].split(".")
        pre = match["pre"]
        if pre is None or len(parts) == 3 or pre[0].isalpha():
            return _release_key([int(part) for part in parts], pre)
    key = [
        (_NUMBER, int(run), "") if run.isascii() and run.isdigit() else (_WORD, 0, run.casefold())
        for run in _RUN.findall(text)
    ]
    return (*key, (_END, 0, ""))


def _release_key(numbers: list[int], pre: str | None) -> VersionKey:
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    key = [(_NUMBER, number, "") for number in numbers]
    if pre is not None:
        key.append((_PRERELEASE, 0, ""))
        key += [(_NUMBER, int(part), "") if part.isdigit() else (_WORD, 0, part) for part in pre.split(".")]
    return (*key, (_END, 0, ""))


def at_most(one: Scalar, other: Scalar) -> bool:
    """Return True if both are numbers or both are versions, and `one` is at most `other`."""
    if not isinstance(one, (bool, str)) and not isinstance(other, (bool, str)):
        return one <= other
    if not (is_version(one) and is_version(other)):
        return False
    return version_key(texts(one)[0]) <= version_key(texts(other)[0])


def within(value: Scalar, least: Scalar | None, most: Scalar | None) -> bool:
    """Return True if `value` is in the inclusive range; None is no bound."""
    if value != value or least != least or most != most:  # NaN is in no range
        return False
    return (least is None or at_most(least, value)) and (most is None or at_most(value, most))


def runs(found: str, target: str) -> bool:
    """Return True if microarchitecture `found` is `target` or a descendant, so that it runs code built for it."""
    if found == target:
        return True
    from archspec.cpu import TARGETS  # slow to import, and few requests need it

    known = TARGETS.get(found)
    return known is not None and any(ancestor.name == target for ancestor in known.ancestors)
