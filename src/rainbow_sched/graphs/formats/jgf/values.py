"""Checks of single values of a graph (sizes, metadata, ids) and limits of its size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_SIZE, MAX_VERTICES, Subsystem, Vertex

NOT_A_NUMBER = "\0"  # marks a NaN or Infinity of the text; no other text may hold this character
# Keys that the graph's columns and tree represent. All other keys are the site's metadata.
STRUCTURAL = frozenset(
    ("type", "basename", "name", "id", "uniq_id", "rank", "exclusive", "unit", "size", "paths"),
)
_MAX_METADATA_DEPTH = 32


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """Maximum size of a graph; a larger one is refused unread."""

    text: int = 1 << 30  # bytes, after decompression
    vertices: int = MAX_VERTICES

    @property
    def edges(self) -> int:
        """Return the maximum number of edges: `contains` and `in` per vertex, and more for subsystems."""
        return 8 * self.vertices + 64


DEFAULT = GraphLimits()


def checked_size(size: object, where: str) -> int:
    """Return a size as a whole number from 1 up; the default is 1."""
    if size is None:
        return 1
    if isinstance(size, float) and math.isfinite(size) and size == int(size):
        size = int(size)
    if isinstance(size, str) and size.startswith(NOT_A_NUMBER):
        size = float(size[1:])
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_SIZE:
        shown = repr(size)
        raise Invalid(f"a size is a whole number from 1 to {MAX_SIZE}, not {shown[:60]}", where=where)
    return size


def check_value(value: object, where: str) -> None:
    """Raise for values that cannot be stored or sent: infinite numbers, invalid text, deep nesting."""
    stack: list[tuple[object, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > _MAX_METADATA_DEPTH:
            raise TooLarge(f"metadata is at most {_MAX_METADATA_DEPTH} levels deep", where=where)
        if isinstance(item, dict):
            stack += ((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            stack += ((part, depth + 1) for part in item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise Invalid("a number is too large or not a number", where=where)
        elif isinstance(item, int) and item.bit_length() > 64:
            raise Invalid("a number is too large", where=where)
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                raise Invalid("a text holds half a character (a lone surrogate)", where=where) from None
        elif isinstance(item, str) and NOT_A_NUMBER in item:
            raise Invalid(f"{item.strip(NOT_A_NUMBER)} is no number of JSON", where=where)


def first_duplicate(values: Sequence[object]) -> object:
    """Return the first value that occurs a second time, or None."""
    if len(set(values)) == len(values):
        return None
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def refuse_duplicate(ids: Sequence[str]) -> None:
    """Raise `Invalid` for the first duplicate id."""
    duplicate = first_duplicate(ids)
    if duplicate is not None:
        raise Invalid("there are two vertices with this id", where=f"vertex {duplicate!r}")


def build_subsystem(
    name: str, dominant: Mapping[str, int], vertices: list[Vertex], edges: list[tuple[str, str]], *, nowhere: str
) -> Subsystem:
    """Do the same as `Subsystem.build`; a vertex may also attach to `nowhere`, which attaches it to nothing."""
    built = Subsystem.build(name, {**dominant, nowhere: -1}, vertices, edges)
    return replace(built, hangs_on=tuple(tuple(id for id in ids if id != nowhere) for ids in built.hangs_on))
