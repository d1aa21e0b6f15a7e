"""Split a JGF text into its nodes and edges, in small pieces that are decoded one by one.

A graph of a million vertices is 400 MB of text; as Python objects it would be ten times
that. So the text is cut about every `PIECE_BYTES` bytes, each piece is decoded alone, and only
columns are stored. A cut is guessed at `}, {` and then verified:
a piece starts at a true border, so if it decodes as a list of whole elements, its end
is a true border, too. A wrong guess fails to decode and the next one is tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from rainbow_sched.graphs.formats.jgf.values import NOT_A_NUMBER, GraphLimits
from rainbow_sched.model.errors import Invalid, TooLarge

PIECE_BYTES = 1 << 17  # fits the processor's cache: half the time of pieces of 4 MB
_GUESSES = 4  # wrong cuts tried before the rest is read as one piece
_NAMED_ERRORS = 16 << 20  # up to this size an invalid text is read twice, so that the error can name the vertex
_LIST_BORDER = re.compile(rb"\}\s*,(?=\s*\{)")
_BLANK = re.compile(rb"\s*")
_DICT_BORDER = re.compile(rb"\}\s*\}\s*,(?=\s*\")")

# Takes one piece, or raises without side effects.
Consumer: TypeAlias = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Section:
    """The nodes or the edges of a document: JSON text of one list or one dict."""

    text: memoryview
    keyed: bool  # a dict by id


class _Graph(msgspec.Struct):
    nodes: msgspec.Raw = msgspec.Raw()
    edges: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct):
    graph: _Graph | None = None
    graphs: msgspec.Raw = msgspec.Raw()


class _R(msgspec.Struct):
    scheduling: msgspec.Raw


_document = msgspec.json.Decoder(_Document)
_r = msgspec.json.Decoder(_R)


def scheduling_of(text: bytes) -> bytes | None:
    """Return the undecoded graph inside a Flux R, or None."""
    try:
        return bytes(_r.decode(text).scheduling)
    except (msgspec.MsgspecError, RecursionError):
        return None


def sections(text: bytes | str, limits: GraphLimits) -> tuple[Section, Section]:
    """Return the undecoded nodes and edges of a JGF document; raise `Invalid` or `TooLarge`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > limits.text:
        raise TooLarge(f"a graph is at most {limits.text} bytes of JSON; this is {len(data)}")
    if b"\\u0000" in data:
        raise Invalid("the text holds a NUL character, written \\\\u0000; no id, name or value may")
    try:
        found = _document.decode(data)
    except msgspec.ValidationError as error:
        raise Invalid(f"this is no JGF document: {error}") from None
    except msgspec.DecodeError as error:
        found = _document.decode(_repaired(data, str(error)))
    except RecursionError:
        raise TooLarge("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"the text is not UTF-8: {error}") from None
    if memoryview(found.graphs).nbytes:
        raise Invalid('the document holds several "graphs"; register one cluster with one "graph" at a time')
    if found.graph is None:
        raise Invalid('this is no JGF document: it needs {"graph": {"nodes": ..., "edges": [...]}}')
    nodes, edges = (_section(raw) for raw in (found.graph.nodes, found.graph.edges))
    if not nodes.text.nbytes:
        raise Invalid('the graph has no "nodes"')
    if edges.keyed:
        raise Invalid('"edges" must be a list of {"source", "target", "relation"}')
    return nodes, edges


def _repaired(data: bytes, problem: str) -> bytes:
    """Mark NaN and Infinity, which Python writes and JSON forbids, so that a later error can name the vertex."""
    if len(data) > _NAMED_ERRORS:
        raise Invalid(f"the text is not JSON: {problem}")
    try:
        document = json.loads(data, parse_constant=lambda name: NOT_A_NUMBER + name)
        return msgspec.json.encode(document)
    except RecursionError:
        raise TooLarge("the JSON is nested too deeply") from None
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise Invalid(f"the text is not JSON: {error}") from None


def _section(raw: msgspec.Raw) -> Section:
    text = memoryview(raw)
    if bytes(text[:5]) in (b"", b"null"):
        return Section(memoryview(b""), False)
    if text[0] not in b"[{":
        raise Invalid('"nodes" is a list or a dict by id, "edges" is a list')
    body = text[1:-1]
    return Section(memoryview(b"") if _BLANK.fullmatch(body) else body, text[0] == ord("{"))


def pieces(section: Section, usual: Consumer, any_kind: Consumer) -> Iterator[None]:
    """Pass each piece of the section to `usual`, or to `any_kind` if `usual` raises; yield after each."""
    text, at = section.text, 0
    border = _DICT_BORDER if section.keyed else _LIST_BORDER
    opening, closing = (b"{", b"}") if section.keyed else (b"[", b"]")
    while at < len(text):
        for end in _cuts(text, at, border):
            body = text[at:end] if end == len(text) else text[at : end - 1]  # without the comma
            if _feed(b"".join((opening, body, closing)), usual, any_kind, last=end == len(text)):
                at = end
                yield
                break


def _cuts(text: memoryview, at: int, border: re.Pattern[bytes]) -> Iterator[int]:
    """Iterate over possible ends of the piece that starts at `at`; the last one is the end of the text."""
    guess = at + PIECE_BYTES
    for _ in range(_GUESSES):
        found = border.search(text, guess) if guess < len(text) else None
        if found is None:
            break
        yield found.end()
        guess = found.end()
    yield len(text)


def _feed(piece: bytes, usual: Consumer, any_kind: Consumer, *, last: bool) -> bool:
    """Return True if the piece was taken, False if the cut was wrong."""
    try:
        usual(piece)
        return True
    except (msgspec.MsgspecError, OverflowError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise TooLarge("the JSON is nested too deeply") from None
    try:
        any_kind(piece)
        return True
    except ValueError as error:  # not JSON: the cut was wrong, or there is nothing left to cut
        if last:
            raise Invalid(f"the text is not JSON: {error}") from None
        return False
    except RecursionError:
        raise TooLarge("the JSON is nested too deeply") from None
