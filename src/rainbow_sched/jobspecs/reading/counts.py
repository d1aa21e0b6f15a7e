"""Parse counts of jobspecs, spread them over the levels of a request, and parse the indices of arrays.

A count is a number, a `{min, max}` map, or a string of RFC 22 or RFC 45.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.ranges import parse_range
from rainbow_sched.model.request import MAX_COUNT, Count, Level

MAX_ARRAY_JOBS = 10_000  # as many as one call submits
ARRAY_LABEL = "array_index"  # the label that holds the index of an array job
MAX_DIGITS = 9  # an index stays below 2^31
_INDEX = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")
_RANGE = re.compile(r"([1-9][0-9]{0,15})(?:-([1-9][0-9]{0,15})|(\+))(?::([1-9][0-9]{0,15}))?(?::([-+*^]))?")
_IDS = re.compile(r"[1-9][0-9]{0,15}(?:-[1-9][0-9]{0,15})?(?:,[1-9][0-9]{0,15}(?:-[1-9][0-9]{0,15})?)*")
# A slot below one of these types is inside one node.
WITHIN_A_NODE = frozenset({"node", "socket", "package", "numa", "numanode", "core"})


def parse_count(entry: Entry) -> tuple[Count, str]:
    """Parse a count in any of the three forms of RFC 14; return it with a note if it is honoured only in part."""
    try:
        if isinstance(entry.value, dict):
            return _from_map(entry)
        if isinstance(entry.value, str):
            return _from_text(entry.value)
        return Count(entry.integer()), ""
    except Invalid as error:
        raise error if error.where else entry.error(error.what) from None


def _from_map(entry: Entry) -> tuple[Count, str]:
    entries = entry.keys(("min", "max", "operator", "operand"))
    least = required(entries, "min", entry).integer()
    most = entries["max"].integer() if "max" in entries else None
    if ("operator" in entries) != ("operand" in entries):
        raise entry.error("operator and operand must be given together")
    if "operator" not in entries:
        return Count(least, most), ""
    return _stepped(least, most, entries["operator"].text(), entries["operand"].integer())


def _from_text(text: str) -> tuple[Count, str]:
    word = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    found = _RANGE.fullmatch(word)
    if found and not (found[5] and not found[4]):
        most = int(found[2]) if found[2] else None
        return _stepped(int(found[1]), most, found[5] or "+", int(found[4] or 1))
    if _IDS.fullmatch(word):
        return _from_ids(word)
    raise Invalid(f"{text[:40]!r} is not a count; write 4, 2-8, 2+, 2-32:2:* or 4,9,16")


def _from_ids(word: str) -> tuple[Count, str]:
    spans = [span for part in word.split(",") if (span := parse_range(part))]
    last = 0
    for low, high in spans:
        if low <= last or high < low:
            raise Invalid(f"the counts of {word[:40]!r} must increase")
        last = high
    least, most = spans[0][0], spans[-1][1]
    if most - least == sum(high - low + 1 for low, high in spans) - 1:
        return Count(least, most), ""
    return Count(least), f"of the counts {word[:40]} only the least, {least}, is considered"


def _stepped(least: int, most: int | None, operator: str, operand: int) -> tuple[Count, str]:
    if operator not in ("+", "*", "^"):
        raise Invalid(f"the operator must be +, * or ^, not {operator[:8]!r}")
    if operator in ("*", "^") and operand < 2:
        raise Invalid(f"with the operator {operator} the operand must be at least 2")
    if operator == "^" and least < 2:
        raise Invalid("with the operator ^ the minimum must be at least 2")
    Count(least, most)
    if operator == "+" and operand == 1:
        return Count(least, most), ""
    return Count(least), f"of the counts from {least} by {operator}{operand} only the least is considered"


def times(outer: Count, inner: Count) -> Count:
    """Return the total if each of `outer` contains `inner`."""
    if outer.min * inner.min > MAX_COUNT:
        raise Invalid(f"{outer.min} times {inner.min} exceeds the maximum of {MAX_COUNT}")
    most = None if outer.max is None or inner.max is None else min(outer.max * inner.max, MAX_COUNT)
    return Count(outer.min * inner.min, most)


def split_evenly(total: Count, among: int) -> Count:
    """Divide `total` evenly among `among` parts, rounded up."""
    most = None if total.max is None else -(-total.max // among)
    return Count(-(-total.min // among), most)


def spread_slot(count: Count, inner: tuple[Level, ...], *, label: str, in_node: bool) -> tuple[Level, ...]:
    """Return the levels for `count` slots of `inner`.

    A slot must lie inside one node, because a task runs there; a shared node is added if no level
    above or inside is a node.
    """
    if in_node or any(level.type == "node" for top in inner for level in top.walk()):
        return tuple(replace(top, count=times(count, top.count), label=top.label or label) for top in inner)
    return (Level(type="node", count=count, shared=True, abstract=True, inside=inner, label=label),)


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
