"""Text (JSON or YAML) into plain data, safely: every hostile document ends in a typed error, quickly.

YAML is read from parser events, never constructed: no anchors, aliases, merge keys, tags or
second documents, so nothing can grow beyond the text. Plain scalars follow YAML 1.2: `yes`,
`1:30` and dates stay text. Keys are always text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from rainbow_sched.model.errors import Invalid, TooLarge

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_INT = 2**63 - 1

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE][-+]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Mapping[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may cost."""

    bytes: int = MAX_BYTES
    depth: int = MAX_DEPTH
    nodes: int = MAX_NODES


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data, and for YAML the line of each path (`resources.ior.with[0].count`)."""

    data: object
    lines: Mapping[str, int] = field(default_factory=dict)

    def placed(self, error: Invalid) -> Invalid:
        """The same error with the line beside the path, if the line is known."""
        line = self.lines.get(error.where)
        return error if line is None else type(error)(error.what, where=f"{error.where} (line {line})")


def load(text: str, limits: Limits = DEFAULT) -> object:
    """Read one JSON or YAML document as dicts, lists, strings, numbers, booleans and None."""
    return read(text, limits).data


def read(text: str, limits: Limits = DEFAULT) -> Document:
    """Like `load`, with line numbers for errors found later."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("the text is not valid Unicode") from None
    if size > limits.bytes:
        raise TooLarge(f"the document has {size} bytes; at most {limits.bytes} are read")
    if text.lstrip()[:1] not in ("{", "["):
        return _read_yaml(text, limits)
    try:
        return Document(_read_json(text, limits))
    except json.JSONDecodeError as broken:
        try:
            return _read_yaml(text, limits)  # `{a: 1}` is YAML in flow style
        except _Syntax:
            raise Invalid(f"not JSON: {broken.msg}", where=f"line {broken.lineno}") from None


def child(path: str, key: str | int) -> str:
    """The path of what lies at `key` below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{_shown(key)}" if path else _shown(key)


class _Syntax(Invalid):
    """The YAML parser could not make sense of it."""


def _read_json(text: str, limits: Limits) -> object:
    try:
        data = json.loads(
            text, object_pairs_hook=_pairs, parse_int=_json_int, parse_float=_finite, parse_constant=_no_constant
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
                raise Invalid("this key is there twice", where=_shown(key))
            seen.add(key)
    return found


def _json_int(text: str) -> int:
    return _whole(text, "")


def _no_constant(text: str) -> object:
    raise Invalid(f"{text} is not a number Rainbow takes; numbers are finite")


def _whole(text: str, where: str) -> int:
    number = int(text) if len(text) <= 20 else MAX_INT + 1
    if abs(number) > MAX_INT:
        raise Invalid(f"a whole number is at most {MAX_INT}, not {text[:24]}", where=where)
    return number


def _finite(text: str, where: str = "") -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Invalid(f"{text[:24]} is too large for a number", where=where)
    return number


def _check_tree(data: object, limits: Limits) -> None:
    """Depth, number of nodes and characters of what the JSON reader built."""
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
                _check_text(key, "")
            stack.extend((inner, depth + 1) for inner in value.values())
        elif isinstance(value, list):
            stack.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, str):
            _check_text(value, "")


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise Invalid("text holds a NUL character", where=where)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid("text holds half of a surrogate pair", where=where) from None


def _shown(key: str) -> str:
    """A key for an error message: as long as anybody reads."""
    return key if len(key) <= 60 else f"{key[:60]}..."


@dataclass(slots=True)
class _Open:
    """A YAML collection that has begun and not ended."""

    value: dict[str, object] | list[object]
    path: str
    key: str | None = None


def _read_yaml(text: str, limits: Limits) -> Document:
    builder = _Builder(limits)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        where = f"line {mark.line + 1}" if mark else ""
        raise _Syntax(f"not YAML: {broken.problem or broken.context}", where=where) from None
    except yaml.YAMLError as broken:
        raise _Syntax(f"not YAML: {' '.join(str(broken).split())[:120]}") from None
    return Document(builder.root, builder.lines)


class _Builder:
    """Builds plain data from YAML events, one at a time, without recursion."""

    def __init__(self, limits: Limits) -> None:
        self.root: object = None
        self.lines: dict[str, int] = {}
        self._limits = limits
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Take the parser's next event."""
        mark = event.start_mark
        line = mark.line + 1 if mark else 0
        where = f"line {line}"
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("aliases (*name) are not taken; write the value out", where=where)
        if isinstance(event, yaml.NodeEvent):
            self._node(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise Invalid("there is a second document; send one at a time", where=where)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        where = f"line {line}"
        self._nodes += 1
        if event.anchor is not None:
            raise Invalid("anchors (&name) are not taken; write the value out", where=where)
        if getattr(event, "tag", None) is not None:
            raise Invalid("tags (!name) are not taken; write the plain value", where=where)
        if self._nodes > self._limits.nodes:
            raise TooLarge(f"more than {self._limits.nodes} values in one document", where=where)
        top = self._open[-1] if self._open else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            top.key = self._as_key(event, top.value, where)
            return
        if isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event, where), line)
            return
        if len(self._open) >= self._limits.depth:
            raise TooLarge(f"nested deeper than {self._limits.depth} levels", where=where)
        value: dict[str, object] | list[object] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, self._put(value, line)))

    def _as_key(self, event: yaml.NodeEvent, into: dict[str, object], where: str) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise Invalid("a key is text, not a list or a map", where=where)
        key = event.value
        if key == "<<" and event.implicit[0]:
            raise Invalid("merge keys (<<) are not taken; write the keys out", where=where)
        if key in into:
            raise Invalid(f"the key {_shown(key)!r} is there twice", where=where)
        _check_text(key, where)
        return key

    def _put(self, value: object, line: int) -> str:
        """Put a value where it belongs and return its path."""
        if not self._open:
            self.root = value
            return ""
        top = self._open[-1]
        if isinstance(top.value, list):
            path = child(top.path, len(top.value))
            top.value.append(value)
        else:
            key = top.key or ""
            path, top.key = child(top.path, key), None
            top.value[key] = value
        self.lines[path] = line
        return path


def _scalar(event: yaml.ScalarEvent, where: str) -> object:
    text: str = event.value
    if not event.implicit[0]:  # quoted or a block
        _check_text(text, where)
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _whole(text, where)
    if _FLOAT.fullmatch(text):
        return _finite(text, where)
    if _NOT_FINITE.fullmatch(text):
        raise Invalid(f"{text} is not a number Rainbow takes; numbers are finite", where=where)
    _check_text(text, where)
    return text
