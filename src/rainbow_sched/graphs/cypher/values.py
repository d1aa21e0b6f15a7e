"""Convert values to columns that a database compares as Rainbow does: equality across types, and version order."""

from __future__ import annotations

from typing import Any

from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Scalar
from rainbow_sched.model.versions import is_number, is_version, texts, version_key

EXACT = 2**53  # databases compare numbers as doubles; beyond this, two whole numbers may look equal


def field_row(name: str, value: Scalar) -> dict[str, Any]:
    """Return one value of a field: its texts for equality, its number and its version key for ranges."""
    number = float(value) if is_number(value) else 0.0
    if abs(number) >= EXACT:
        raise Unsupported(f"the cypher backend compares numbers below 2^53 exactly, and {name} is {value}")
    written = texts(value)
    return {
        "key": f"{name}\n{type(value).__name__}\n{value!r}",
        "name": name,
        "one": written[0],
        "two": written[-1],
        "numeric": is_number(value),
        "plain": isinstance(value, str),
        "number": number,
        "version": sort_key(written[0]) if is_version(value) else "",
    }


def sort_key(text: str) -> str:
    """Return an ASCII text that sorts bytewise like `version_key`."""
    parts = []
    for rank, number, word in version_key(text):
        digits = str(number)
        parts.append(f"{rank}{len(digits):03}{digits}{_ascii(word)} ")  # the blank ends a word and sorts before letters
    return "".join(parts)


def _ascii(word: str) -> str:
    """Write letters beyond ASCII as `~` and six digits: after all others, in order of their code points."""
    return word if word.isascii() else "".join(c if c.isascii() else f"~{ord(c):06x}" for c in word)
