"""Text of others made safe for a terminal: nothing in it can move the cursor, recolour, retitle or reorder.

`clean` takes a whole text. `Cleaner` takes it in pieces and gives the same, wherever it is cut.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

COLUMNS, MIN_COLUMNS = 120, 40
MAX_SEQUENCE = 256  # a longer "escape sequence" is taken for text, so that nobody can hide a whole log in one

# CSI ... final; OSC, DCS, SOS, PM, APC up to their terminator; two- and three-character escapes; each 7 or 8 bit.
_BODY = rf"[^\x07\x1b\x9c\n\r]{{0,{MAX_SEQUENCE}}}"
_CSI = rf"[0-?]{{0,{MAX_SEQUENCE}}}[ -/]{{0,16}}"
_SEQUENCE = re.compile(
    rf"(?:\x1b\[|\x9b){_CSI}[@-~]"
    rf"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_BODY}(?:\x07|\x9c|\x1b\\)"
    r"|\x1b[ -/]{1,16}[0-~]"
    r"|\x1b(?![\[\]PX^_])[0-~]"
)
# The beginning of one of the above, at the end of a piece: kept back until more comes.
_UNFINISHED = re.compile(
    rf"(?:(?:\x1b\[|\x9b){_CSI}|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_BODY}\x1b?|\x1b[ -/]{{0,16}}|\r)\Z"
)
# C0 but for tab and newline, DEL, C1; directional marks and overrides; byte order mark; tags; lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_HARMLESS = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\U0010ffff]*")


def clean(text: str) -> str:
    """`text` without control sequences; tabs and line ends stay, a lone carriage return becomes a line end."""
    if _HARMLESS.fullmatch(text):
        return text
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return _UNSAFE.sub("", text.replace("\r", "\n"))


def one_line(text: str) -> str:
    """`clean`, and on one line: for names and reasons in tables and messages."""
    return " ".join(clean(text).split())


def columns() -> int:
    """How wide lines may be: as wide as the terminal; 120 where nobody looks."""
    try:
        return max(MIN_COLUMNS, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return COLUMNS


def hung(lead: str, sentences: Sequence[str], limit: int) -> str:
    """`lead`, and beside it each sentence on lines of its own, within `limit` columns where words allow."""
    words = textwrap.TextWrapper(max(20, limit - width(lead)), break_long_words=False, break_on_hyphens=False)
    lines = [line for sentence in sentences for line in words.wrap(one_line(sentence))]
    between = "\n" + " " * width(lead)
    return f"{lead}{between.join(lines)}\n"


class Cleaner:
    """`clean` for a text that comes in pieces."""

    def __init__(self) -> None:
        self._kept = ""

    def feed(self, piece: str) -> str:
        """What is safe to print so far."""
        text = self._kept + piece
        held = _held_back(text)
        self._kept = text[held:]
        return clean(text[:held])

    def finish(self) -> str:
        """The rest, when no more comes."""
        rest, self._kept = self._kept, ""
        return clean(rest)


def _held_back(text: str) -> int:
    """Where the unfinished sequence at the end of `text` begins; the length of `text` if there is none."""
    found = _UNFINISHED.search(text)
    if found is None:
        return len(text)
    for whole in _SEQUENCE.finditer(text):
        if whole.start() <= found.start() < whole.end():  # only the tail of a finished sequence looks unfinished
            again = _UNFINISHED.search(text, whole.end())
            return again.start() if again else len(text)
    return found.start()


def width(text: str) -> int:
    """The columns that `text` takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
