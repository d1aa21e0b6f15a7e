"""Read JSON or YAML into plain data; hostile documents raise a typed error quickly.

YAML is read from parser events, without anchors, aliases, merge keys, tags or second documents,
so that data cannot grow beyond the text. Plain scalars follow YAML 1.2: `yes`, `1:30` and dates
stay text. Keys are always text.
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
class DocumentLimits:
    """Limits on the size of a document."""

    bytes: int = MAX_BYTES
    depth: int = MAX_DEPTH
    nodes: int = MAX_NODES


DEFAULT_LIMITS = DocumentLimits()


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data, and for YAML the line of each path (`resources.ior.with[0].count`)."""

    data: object
    lines: Mapping[str, int] = field(default_factory=dict)

    def with_line(self, error: Invalid) -> Invalid:
        """Return the error with the line added to its path, if the line is known."""
        line = self.lines.get(error.where)
        return error if line is None else type(error)(error.what, where=f"{error.where} (line {line})")


def read(text: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Document:
    """Read one JSON or YAML document as dicts, lists, strings, numbers, booleans and None."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid("the text is not valid Unicode") from None
    if size > limits.bytes:
        raise TooLarge(f"the document has {size} bytes; the maximum is {limits.bytes}")
    if text.lstrip()[:1] not in ("{", "["):
        return _read_yaml(text, limits)
    try:
        return Document(_read_json(text, limits))
    except json.JSONDecodeError as broken:
        try:
            return _read_yaml(text, limits)  # `{a: 1}` is YAML in flow style
        except _YamlSyntaxError:
            raise Invalid(f"not JSON: {broken.msg}", where=f"line {broken.lineno}") from None


def child_path(path: str, key: str | int) -> str:
    """Return the path of `key` below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{_shown(key)}" if path else _shown(key)


class _YamlSyntaxError(Invalid):
    """The text is not YAML."""


def _read_json(text: str, limits: DocumentLimits) -> object:
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
                raise Invalid("duplicate key", where=_shown(key))
            seen.add(key)
    return found


def _json_int(text: str) -> int:
    return _whole(text, "")


def _no_constant(text: str) -> object:
    raise Invalid(f"{text} is not allowed; numbers must be finite")


def _whole(text: str, where: str) -> int:
    number = int(text) if len(text) <= 20 else MAX_INT + 1
    if abs(number) > MAX_INT:
        raise Invalid(f"a whole number must be at most {MAX_INT}, not {text[:24]}", where=where)
    return number


def _finite(text: str, where: str = "") -> float:
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
                _check_text(key, "")
            stack.extend((inner, depth + 1) for inner in value.values())
        elif isinstance(value, list):
            stack.extend((inner, depth + 1) for inner in value)
        elif isinstance(value, str):
            _check_text(value, "")


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise Invalid("text contains a NUL character", where=where)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid("text contains half of a surrogate pair", where=where) from None


def _shown(key: str) -> str:
    """Shorten a key for an error message."""
    return key if len(key) <= 60 else f"{key[:60]}..."


@dataclass(slots=True)
class _OpenCollection:
    """A YAML collection that is being read."""

    value: dict[str, object] | list[object]
    path: str
    key: str | None = None


def _read_yaml(text: str, limits: DocumentLimits) -> Document:
    builder = _YamlBuilder(limits)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.add(event)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        where = f"line {mark.line + 1}" if mark else ""
        raise _YamlSyntaxError(f"not YAML: {broken.problem or broken.context}", where=where) from None
    except yaml.YAMLError as broken:
        raise _YamlSyntaxError(f"not YAML: {' '.join(str(broken).split())[:120]}") from None
    return Document(builder.root, builder.lines)


class _YamlBuilder:
    """Builds plain data from YAML events without recursion."""

    def __init__(self, limits: DocumentLimits) -> None:
        self.root: object = None
        self.lines: dict[str, int] = {}
        self._limits = limits
        self._open: list[_OpenCollection] = []
        self._nodes = 0
        self._documents = 0

    def add(self, event: yaml.Event) -> None:
        """Process the parser's next event."""
        mark = event.start_mark
        line = mark.line + 1 if mark else 0
        where = f"line {line}"
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("aliases (*name) are not supported; write the value out", where=where)
        if isinstance(event, yaml.NodeEvent):
            self._node(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise Invalid("the text contains a second document; send one at a time", where=where)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        where = f"line {line}"
        self._nodes += 1
        if event.anchor is not None:
            raise Invalid("anchors (&name) are not supported; write the value out", where=where)
        if getattr(event, "tag", None) is not None:
            raise Invalid("tags (!name) are not supported; write the plain value", where=where)
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
        self._open.append(_OpenCollection(value, self._put(value, line)))

    def _as_key(self, event: yaml.NodeEvent, into: dict[str, object], where: str) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise Invalid("a key must be text, not a list or a map", where=where)
        key = event.value
        if key == "<<" and event.implicit[0]:
            raise Invalid("merge keys (<<) are not supported; write the keys out", where=where)
        if key in into:
            raise Invalid(f"duplicate key {_shown(key)!r}", where=where)
        _check_text(key, where)
        return key

    def _put(self, value: object, line: int) -> str:
        """Add a value to the open collection and return its path."""
        if not self._open:
            self.root = value
            return ""
        top = self._open[-1]
        if isinstance(top.value, list):
            path = child_path(top.path, len(top.value))
            top.value.append(value)
        else:
            key = top.key or ""
            path, top.key = child_path(top.path, key), None
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
        raise Invalid(f"{text} is not allowed; numbers must be finite", where=where)
    _check_text(text, where)
    return text
