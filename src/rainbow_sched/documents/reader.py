"""Read JSON or YAML into plain data; hostile documents raise a typed error quickly.

YAML is read from parser events, without anchors, aliases, merge keys, tags or second documents,
so that data cannot grow beyond the text. Plain scalars follow YAML 1.2: `yes`, `1:30` and dates
stay text. Keys are always text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.model.errors import Invalid, TooLarge

MAX_BYTES = 64 * 1024  # of one document, unless the caller sets another limit; bounds the time to read it
MAX_DEPTH = 32  # bounds the recursion of the readers
MAX_NODES = 10_000  # values in one document; bounds its memory
MAX_INT = 2**63 - 1  # a larger number does not fit the 64 bits of messages and databases


class DocumentLimits(NamedTuple):
    """Limits on the size of a document."""

    bytes: int = MAX_BYTES
    depth: int = MAX_DEPTH
    nodes: int = MAX_NODES


DEFAULT_LIMITS = DocumentLimits()


class Document(NamedTuple):
    """Plain data, and for YAML the line of each path (`resources.ior.with[0].count`)."""

    data: object
    lines: Mapping[str, int] = MappingProxyType({})

    def with_line(self, error: Invalid) -> Invalid:
        """Return the error with the line added to its path, if the line is known."""
        line = self.lines.get(error.where)
        return error if line is None else type(error)(error.what, where=f"{error.where} (line {line})")


def read(text: str, limits: DocumentLimits = DEFAULT_LIMITS, *, scalars_as_text: bool = False) -> Document:
    """Read one JSON or YAML document as dicts, lists, strings, numbers, booleans and None.

    `scalars_as_text`: return `1`, `true` and `null` as text too. Raises only Invalid and its subclass TooLarge.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("the text is not valid Unicode") from None
    if size > limits.bytes:
        raise TooLarge(f"the document has {size} bytes; the maximum is {limits.bytes}")
    if scalars_as_text or text.lstrip()[:1] not in ("{", "["):
        return _read_yaml(text, limits, scalars_as_text)
    try:
        return Document(_read_json(text, limits))
    except json.JSONDecodeError as broken:
        try:
            return _read_yaml(text, limits)  # `{a: 1}` is YAML in flow style
        except InvalidYaml:
            raise Invalid(f"not JSON: {broken.msg}", where=f"line {broken.lineno}") from None


def child_path(path: str, key: str | int) -> str:
    """Return the path of `key` below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{shorten_key(key)}" if path else shorten_key(key)


class InvalidYaml(Invalid):
    """The text is not YAML."""


def _read_yaml(text: str, limits: DocumentLimits, scalars_as_text: bool = False) -> Document:
    from rainbow_sched.documents.yaml_reader import read_yaml  # expensive to import, and JSON does not need it

    return read_yaml(text, limits, scalars_as_text)


def _read_json(text: str, limits: DocumentLimits) -> object:
    try:
        data = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_int=whole_number,
            parse_float=finite_number,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise TooLarge(f"nested deeper than {limits.depth} levels") from None
    _check_tree(data, limits)
    return data


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Invalid("duplicate key", where=shorten_key(key))
            seen.add(key)
    return found


def _no_constant(text: str) -> object:
    raise Invalid(f"{text} is not allowed; numbers must be finite")


def whole_number(text: str, where: str = "") -> int:
    """Return the number; raise Invalid if it needs more than 64 bits."""
    number = int(text) if len(text) <= 20 else MAX_INT + 1
    if abs(number) > MAX_INT:
        raise Invalid(f"a whole number must be at most {MAX_INT}, not {text[:24]}", where=where)
    return number


def finite_number(text: str, where: str = "") -> float:
    """Return the number; raise Invalid if it is too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise Invalid(f"{text[:24]} is too large for a number", where=where)
    return number


def _check_tree(data: object, limits: DocumentLimits) -> None:
    """Check the depth, the number of values and the characters of JSON data."""
    nodes = 0
    stack: list[tuple[object, int]] = [(data, 1)]
    while stack:
        value, depth = stack.pop()
        nodes += 1
        if depth > limits.depth:
            raise TooLarge(f"nested deeper than {limits.depth} levels")
        if nodes > limits.nodes:
            raise TooLarge(f"more than {limits.nodes} values in one document")
        if isinstance(value, dict):
            for key in value:
                check_text(key)
            stack.extend((inner, depth + 1) for inner in value.values())
        elif isinstance(value, list):
            stack.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, str):
            check_text(value)


def check_text(text: str, where: str = "") -> None:
    """Raise Invalid for characters that cannot be stored."""
    if "\0" in text:
        raise Invalid("text contains a NUL character", where=where)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid("text contains half of a surrogate pair", where=where) from None


def shorten_key(key: str) -> str:
    """Shorten a key for an error message."""
    return key if len(key) <= 60 else f"{key[:60]}..."
