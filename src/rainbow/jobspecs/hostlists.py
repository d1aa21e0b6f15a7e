"""Hostlists by RFC 29: `node[1-3,7]` is four names; how many one may name is bounded."""

from __future__ import annotations

import re

from rainbow.model.errors import Invalid, TooLarge

MAX_HOSTS = 20_000
_EXPRESSION = re.compile(r"([^\[\],\s]*)(?:\[([0-9,-]+)\]([^\[\],\s]*))?")
_SPAN = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


def expand(text: str, *, at_most: int = MAX_HOSTS) -> tuple[str, ...]:
    """The names of a hostlist, in order, each once."""
    written = 0
    names: dict[str, None] = {}
    for part in _split(text):
        found = _EXPRESSION.fullmatch(part)
        if found is None:
            raise Invalid(f"{part[:40]!r} is not a hostlist; write for example node[1-3,7]")
        prefix, ids, suffix = found.groups()
        hosts = [prefix] if ids is None else [f"{prefix}{one}{suffix}" for one in _ids(ids)]
        written += len(hosts)
        if written > at_most:
            raise TooLarge(f"a request names at most {MAX_HOSTS} hosts")
        names.update((host, None) for host in hosts if host)
    return tuple(names)


def _split(text: str) -> list[str]:
    """Parts between commas that are not in brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _ids(text: str) -> list[str]:
    ids: list[str] = []
    width = 0
    for index, part in enumerate(text.split(",")):
        found = _SPAN.fullmatch(part)
        if found is None:
            raise Invalid(f"{part[:40]!r} is not a range of a hostlist; write for example 1-3")
        if index == 0 and found[1].startswith("0"):
            width = len(found[1])  # leading zeros of the first hold for all
        low, high = int(found[1]), int(found[2] or found[1])
        if high < low:
            raise Invalid(f"the range {part[:40]!r} of a hostlist must ascend")
        if len(ids) + high - low >= MAX_HOSTS:
            raise TooLarge(f"a request names at most {MAX_HOSTS} hosts")
        ids.extend(str(one).zfill(width) for one in range(low, high + 1))
    return ids
