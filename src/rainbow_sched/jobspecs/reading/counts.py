"""Counts as jobspecs write them: a number, a `{min, max}` map, or a string by RFC 22 or RFC 45."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import MAX_COUNT, Count

_RANGE = re.compile(r"([1-9][0-9]{0,15})(?:-([1-9][0-9]{0,15})|(\+))(?::([1-9][0-9]{0,15}))?(?::([-+*^]))?")
_IDS = re.compile(r"[1-9][0-9]{0,15}(?:-[1-9][0-9]{0,15})?(?:,[1-9][0-9]{0,15}(?:-[1-9][0-9]{0,15})?)*")


@dataclass(frozen=True, slots=True)
class Asked:
    """A count, and a sentence if only part of what was written is honoured."""

    count: Count
    note: str = ""


def parse_count(at: At) -> Asked:
    """Read a count in any of the three forms of RFC 14."""
    try:
        if isinstance(at.value, dict):
            return _from_map(at)
        if isinstance(at.value, str):
            return _from_text(at.value)
        return Asked(Count(at.whole()))
    except Invalid as error:
        raise error if error.where else at.refuse(error.what) from None


def _from_map(at: At) -> Asked:
    entries = at.keys(("min", "max", "operator", "operand"))
    least = need(entries, "min", at).whole()
    most = entries["max"].whole() if "max" in entries else None
    if ("operator" in entries) != ("operand" in entries):
        raise at.refuse("operator and operand go together")
    if "operator" not in entries:
        return Asked(Count(least, most))
    return _stepped(least, most, entries["operator"].text(), entries["operand"].whole())


def _from_text(text: str) -> Asked:
    word = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    found = _RANGE.fullmatch(word)
    if found and not (found[5] and not found[4]):
        most = int(found[2]) if found[2] else None
        return _stepped(int(found[1]), most, found[5] or "+", int(found[4] or 1))
    if _IDS.fullmatch(word):
        return _from_ids(word)
    raise Invalid(f"{text[:40]!r} is not a count; write 4, 2-8, 2+, 2-32:2:* or 4,9,16")


def _from_ids(word: str) -> Asked:
    spans = [(int(low), int(high or low)) for low, _, high in (part.partition("-") for part in word.split(","))]
    last = 0
    for low, high in spans:
        if low <= last or high < low:
            raise Invalid(f"the counts of {word[:40]!r} must ascend, each once")
        last = high
    least, most = spans[0][0], spans[-1][1]
    if most - least == sum(high - low + 1 for low, high in spans) - 1:
        return Asked(Count(least, most))
    return Asked(Count(least), f"of the counts {word[:40]} only the least, {least}, is considered")


def _stepped(least: int, most: int | None, operator: str, operand: int) -> Asked:
    if operator not in ("+", "*", "^"):
        raise Invalid(f"the operator is +, * or ^, not {operator[:8]!r}")
    if operator in ("*", "^") and operand < 2:
        raise Invalid(f"with the operator {operator} the operand is at least 2")
    if operator == "^" and least < 2:
        raise Invalid("with the operator ^ the least count is 2")
    Count(least, most)
    if operator == "+" and operand == 1:
        return Asked(Count(least, most))
    return Asked(Count(least), f"of the counts from {least} by {operator}{operand} only the least is considered")


def times(outer: Count, inner: Count) -> Count:
    """How many there are in all when each of `outer` holds `inner`."""
    if outer.min * inner.min > MAX_COUNT:
        raise Invalid(f"{outer.min} times {inner.min} is more than {MAX_COUNT}")
    most = None if outer.max is None or inner.max is None else min(outer.max * inner.max, MAX_COUNT)
    return Count(outer.min * inner.min, most)


def shared_out(total: Count, among: int) -> Count:
    """What each of `among` gets when `total` is spread evenly, rounded up."""
    most = None if total.max is None else -(-total.max // among)
    return Count(-(-total.min // among), most)
