"""Read policy options: refuse unknown names with a hint, and read YAML without anchors, tags or type guessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hints import did_you_mean

MAX_YAML_CHARACTERS = 16 * 1_024
MAX_YAML_DEPTH = 8
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the faster C loader where libyaml is installed


def take(policy: str, options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the options completed with defaults; raise Invalid for a name that `policy` does not have."""
    for name, value in options.items():
        if name not in defaults:
            known = did_you_mean(name, defaults) if defaults else "; it takes none"
            raise Invalid(f"policy {policy!r} has no option {name!r}{known}")
        if not isinstance(value, str):
            raise Invalid(f"option {name!r} of policy {policy!r} must be text, not {type(value).__name__}")
    return {**defaults, **options}


def read_yaml(text: str, where: str) -> Any:
    """Read lists, maps and text from YAML; every scalar stays text.

    Anchors, aliases, tags, duplicate keys and deep nesting are refused before anything is built:
    a few hundred bytes of aliases can expand to gigabytes.
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise TooLarge(f"at most {MAX_YAML_CHARACTERS} characters, not {len(text)}", where=where)
    try:
        _check_yaml(text, where)
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise Invalid(f"this is not YAML: {problem}", where=f"{where}{line}") from None


def _check_yaml(text: str, where: str) -> None:
    maps: list[set[str] | None] = []  # the keys seen in each open map; None for a list
    at_key: list[bool] = []  # True if the next node of an open collection is a key
    for event in yaml.parse(text, Loader=_Loader):
        at = f"{where} line {event.start_mark.line + 1}" if event.start_mark else where
        if isinstance(event, yaml.NodeEvent) and event.anchor:  # an alias carries the anchor that it refers to
            raise Invalid("anchors and aliases are not supported; write the text out", where=at)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
            raise Invalid(f"tags such as {event.tag} are not supported", where=at)
        if isinstance(event, yaml.CollectionEndEvent):
            maps.pop()
            at_key.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        if maps and maps[-1] is not None:
            if at_key[-1]:
                _take_key(event, maps[-1], at)
            at_key[-1] = not at_key[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            maps.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            at_key.append(True)
            if len(maps) > MAX_YAML_DEPTH:
                raise Invalid(f"nested more than {MAX_YAML_DEPTH} deep", where=at)


def _take_key(event: yaml.NodeEvent, seen: set[str], at: str) -> None:
    if not isinstance(event, yaml.ScalarEvent):
        raise Invalid("a key must be plain text", where=at)
    if event.value in seen:
        raise Invalid(f"duplicate key {event.value!r}", where=at)
    seen.add(event.value)
