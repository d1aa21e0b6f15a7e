"""Build plain data from YAML events, for `documents/reader.py`, which imports this module only for YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from rainbow_sched.documents.reader import (
    Document,
    DocumentLimits,
    InvalidYaml,
    check_text,
    child_path,
    finite_number,
    shorten_key,
    whole_number,
)
from rainbow_sched.model.errors import Invalid, TooLarge

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the faster C loader where libyaml is installed
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE][-+]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Mapping[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class _OpenCollection:
    """A YAML collection that is being read."""

    value: dict[str, object] | list[object]
    path: str
    key: str | None = None


def read_yaml(text: str, limits: DocumentLimits, scalars_as_text: bool) -> Document:
    """Read one YAML document; raise InvalidYaml if the text is not YAML."""
    builder = _YamlBuilder(limits, scalars_as_text)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.add(event)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        where = f"line {mark.line + 1}" if mark else ""
        raise InvalidYaml(f"not YAML: {broken.problem or broken.context}", where=where) from None
    except yaml.YAMLError as broken:
        raise InvalidYaml(f"not YAML: {' '.join(str(broken).split())[:120]}") from None
    return Document(builder.root, builder.lines)


class _YamlBuilder:
    """Builds plain data from YAML events without recursion."""

    def __init__(self, limits: DocumentLimits, scalars_as_text: bool) -> None:
        self.root: object = "" if scalars_as_text else None
        self.lines: dict[str, int] = {}
        self._limits = limits
        self._scalars_as_text = scalars_as_text
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
            self._put(self._scalar(event, where), line)
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
            raise Invalid(f"duplicate key {shorten_key(key)!r}", where=where)
        check_text(key, where)
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

    def _scalar(self, event: yaml.ScalarEvent, where: str) -> object:
        text: str = event.value
        plain = event.implicit[0]  # neither quoted nor a block
        value = plain_scalar(text, where) if plain and not self._scalars_as_text else text
        if value is text:
            check_text(text, where)
        return value


def plain_scalar(text: str, where: str = "") -> object:
    """Return the value of a plain scalar: a number, a boolean, None or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return whole_number(text, where)
    if _FLOAT.fullmatch(text):
        return finite_number(text, where)
    if _NOT_FINITE.fullmatch(text):
        raise Invalid(f"{text} is not allowed; numbers must be finite", where=where)
    return text
