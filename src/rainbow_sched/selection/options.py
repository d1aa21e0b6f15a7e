"""Read a policy's options: unknown names are refused with a hint, YAML text is read without its traps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hints import did_you_mean

MAX_YAML = 16 * 1_024
MAX_YAML_DEPTH = 8
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the C one where libyaml is there; the same result


def take(policy: str, options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The options with defaults for the ones not given; raise Invalid for a name that `policy` does not have."""
    for name, value in options.items():
        if name not in defaults:
            known = did_you_mean(name, defaults) if defaults else "; it takes none"
            raise Invalid(f"policy {policy!r} has no option {name!r}{known}")
        if not isinstance(value, str):
            raise Invalid(f"option {name!r} of policy {policy!r} is a text, not {type(value).__name__}")
    return {**defaults, **options}


def read_yaml(text: str, where: str) -> Any:
    """Lists, maps and texts from YAML; every scalar stays text, so that nothing changes its meaning.

    Anchors, aliases, tags, keys that come twice and deep nesting are refused before anything
    is built: a few hundred bytes of aliases can stand for gigabytes.
    """
    if len(text) > MAX_YAML:
        raise TooLarge(f"at most {MAX_YAML} characters, not {len(text)}", where=where)
    try:
        _refuse_traps(text, where)
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise Invalid(f"this is not YAML: {problem}", where=f"{where}{line}") from None


def _refuse_traps(text: str, where: str) -> None:
    maps: list[set[str] | None] = []  # the keys seen in each open map; None for a list
    at_key: list[bool] = []  # whether the next node of each open collection is a key
    for event in yaml.parse(text, Loader=_Loader):
        at = f"{where} line {event.start_mark.line + 1}" if event.start_mark else where
        if isinstance(event, yaml.NodeEvent) and event.anchor:  # an alias carries the anchor that it refers to
            raise Invalid("anchors and aliases are not taken; write the text out", where=at)
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
            raise Invalid(f"tags such as {event.tag} are not taken", where=at)
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
        raise Invalid("a key is a plain text", where=at)
    if event.value in seen:
        raise Invalid(f"{event.value!r} is there twice", where=at)
    seen.add(event.value)
