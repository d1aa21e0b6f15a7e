"""Text for a terminal: without control sequences, in columns, and messages on stderr.

`clean` takes a whole text; `Cleaner` takes it in chunks, with the same result wherever it is split.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

COLUMNS = 120  # width of the output where stdout is not a terminal
MIN_COLUMNS = 40  # tables are not readable in fewer
MAX_SEQUENCE_CHARS = 256  # a longer sequence is printed as text, so that it cannot hide output

# These expressions are compiled (by `re`, once) when there is something to remove, which is rare.
# CSI ... final; OSC, DCS, SOS, PM, APC up to their terminator; two- and three-character escapes; each 7 or 8 bit.
_BODY = rf"[^\x07\x1b\x9c\n\r]{{0,{MAX_SEQUENCE_CHARS}}}"
_CSI = rf"[0-?]{{0,{MAX_SEQUENCE_CHARS}}}[ -/]{{0,16}}"
_SEQUENCE = (
    rf"(?:\x1b\[|\x9b){_CSI}[@-~]"
    rf"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_BODY}(?:\x07|\x9c|\x1b\\)"
    r"|\x1b[ -/]{1,16}[0-~]"
    r"|\x1b(?![\[\]PX^_])[0-~]"
)
# The start of a sequence at the end of a chunk, buffered until the next chunk.
_UNFINISHED = rf"(?:(?:\x1b\[|\x9b){_CSI}|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_BODY}\x1b?|\x1b[ -/]{{0,16}}|\r)\Z"
# C0 without tab and newline, DEL, C1; directional marks and overrides; byte order mark; tags; lone surrogates.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Remove control sequences; keep tabs and line ends, and turn a single carriage return into a line end."""
    if text.isascii() and text.replace("\t", " ").replace("\n", " ").isprintable():
        return text
    text = re.sub(_SEQUENCE, "", text.replace("\r\n", "\n"))
    return re.sub(_UNSAFE, "", text.replace("\r", "\n"))


def one_line(text: str) -> str:
    """Clean a text and join its lines, for names and reasons in tables and messages."""
    return " ".join(clean(text).split())


def print_message(message: str) -> None:
    """Print one line to stderr."""
    print(f"rainbow: {one_line(message)}", file=sys.stderr, flush=True)


def columns() -> int:
    """Return the width of the terminal, or 120 if stdout is not one."""
    try:
        return max(MIN_COLUMNS, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return COLUMNS


def hanging(lead: str, sentences: Sequence[str], limit: int) -> str:
    """Format each sentence on its own lines beside `lead`, wrapped at `limit` columns."""
    words = textwrap.TextWrapper(max(20, limit - width(lead)), break_long_words=False, break_on_hyphens=False)
    lines = [line for sentence in sentences for line in words.wrap(one_line(sentence))]
    between = "\n" + " " * width(lead)
    return f"{lead}{between.join(lines)}\n"


class Cleaner:
    """`clean` for a text in chunks."""

    def __init__(self) -> None:
        self._buffer = ""

    def feed(self, chunk: str) -> str:
        """Add a chunk; return the text that can be printed."""
        text = self._buffer + chunk
        end = _unfinished_start(text)
        self._buffer = text[end:]
        return clean(text[:end])

    def finish(self) -> str:
        """Return the buffered rest."""
        rest, self._buffer = self._buffer, ""
        return clean(rest)


def _unfinished_start(text: str) -> int:
    """Return the start of the unfinished sequence at the end of `text`, or its length."""
    unfinished = re.search(_UNFINISHED, text)
    if unfinished is None:
        return len(text)
    for finished in re.finditer(_SEQUENCE, text):
        if finished.start() <= unfinished.start() < finished.end():  # the end of a finished sequence looks unfinished
            again = re.search(_UNFINISHED, text[finished.end() :])
            return finished.end() + again.start() if again else len(text)
    return unfinished.start()


def pad(text: str, columns: int) -> str:
    """Return `text` with blanks up to this width."""
    return text + " " * (columns - width(text))


def width(text: str) -> int:
    """Return the number of columns of `text` on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
