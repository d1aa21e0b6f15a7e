"""Match a text against a pattern with * and ?, in time that grows with their lengths and no faster."""

from __future__ import annotations

import re
from collections.abc import Callable


def glob(pattern: str) -> Callable[[str], bool]:
    """A test for `pattern`: * stands for any characters, ? for one, all else for itself.

    The pieces between stars have a fixed length, so taking the leftmost place for each is
    always right and nothing is ever tried twice.
    """
    pieces = [_piece(part) for part in pattern.split("*")]
    lengths = [len(part) for part in pattern.split("*")]
    if len(pieces) == 1:
        whole = pieces[0]
        return lambda text: whole.fullmatch(text) is not None
    first, *middle, last = pieces
    tail = lengths[-1]

    def test(text: str) -> bool:
        found = first.match(text)
        if found is None:
            return False
        at, end = found.end(), len(text) - tail
        for piece in middle:
            found = piece.search(text, at, end) if at <= end else None
            if found is None:
                return False
            at = found.end()
        return at <= end and last.match(text, end) is not None

    return test


def _piece(part: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "?" else re.escape(c) for c in part), re.DOTALL)
