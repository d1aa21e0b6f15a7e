"""Canonical JSON of a Request, which is stored with each job and hashed.

Defaults are omitted, keys are sorted and there is no whitespace, so equal requests give equal
text. The key `rainbow` holds the format version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from rainbow_sched.documents.reader import DocumentLimits, read
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Runs, Task, Term, Within

FORMAT_VERSION = 1  # of the canonical form; another one is refused
LIMITS = DocumentLimits(bytes=4 * 1024 * 1024, depth=200, nodes=200_000)  # canonical text can exceed its source
_TEXTS = ("hosts", "not_hosts", "properties", "ignored")
_MAPS = ("environment", "options")
_WORDS = ("name", "cwd", "image")
_KEYS = ("rainbow", "groups", "tasks", "requires", "duration", "parameters", *_TEXTS, *_MAPS, *_WORDS)
encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False).encode

Plain: TypeAlias = dict[str, object]


def to_json(request: Request) -> str:
    """Return the canonical text of the request."""
    return encode(to_data(request))


def from_json(text: str) -> Request:
    """Read canonical text; raise Invalid for anything else."""
    return from_data(read(text, LIMITS).data)


def to_data(request: Request) -> Plain:
    """Return the canonical form as plain data."""
    data: Plain = {"rainbow": FORMAT_VERSION, "groups": [_group(group) for group in request.groups]}
    if request.tasks:
        data["tasks"] = [_task(task) for task in request.tasks]
    if request.requires:
        data["requires"] = [_requirement(one) for one in request.requires]
    if request.duration is not None:
        data["duration"] = float(request.duration)
    for key in _TEXTS:
        if value := getattr(request, key):
            data[key] = list(value)
    for key in ("parameters", *_MAPS):
        if value := getattr(request, key):
            data[key] = dict(value)
    for key in _WORDS:
        if value := getattr(request, key):
            data[key] = value
    return data


def _group(group: Group) -> Plain:
    data: Plain = {"levels": [_level(level) for level in group.levels]}
    if group.name:
        data["name"] = group.name
    return data


def _level(level: Level) -> Plain:
    count = level.count
    data: Plain = {"type": level.type}
    if count.min != 1 or count.max != 1:
        data["count"] = count.min if count.max == count.min else [count.min, count.max]
    if level.unit:
        data["unit"] = level.unit
    if level.shared:
        data["shared"] = True
    if level.exclusive:
        data["exclusive"] = True
    if level.abstract:
        data["abstract"] = True
    if level.requires:
        data["requires"] = [_requirement(one) for one in level.requires]
    if level.inside:
        data["inside"] = [_level(inner) for inner in level.inside]
    if level.label:
        data["label"] = level.label
    return data


def _requirement(requirement: Requirement) -> Plain:
    data: Plain = {"subsystem": requirement.subsystem}
    if requirement.terms:
        data["terms"] = [_term(term) for term in requirement.terms]
    if requirement.below:
        data["below"] = [_requirement(one) for one in requirement.below]
    return data


def _term(term: Term) -> Plain:
    if isinstance(term, Equals):
        return {"field": term.field, "equals": term.value}
    if isinstance(term, Runs):
        return {"field": term.field, "runs": term.target}
    bounds = {"min": term.min, "max": term.max}
    return {"field": term.field} | {key: bound for key, bound in bounds.items() if bound is not None}


def _task(task: Task) -> Plain:
    data: Plain = {"command": list(task.command)} if task.command else {"script": task.script}
    if task.group:
        data["group"] = task.group
    if task.per_slot != 1:
        data["per_slot"] = task.per_slot
    if task.total is not None:
        data["total"] = task.total
    return data


def from_data(data: object) -> Request:
    """Read the result of `to_data`."""
    top = Entry(data)
    entries = top.keys(_KEYS)
    version = required(entries, "rainbow", top)
    if version.value != FORMAT_VERSION:
        raise version.error(f"unsupported format version {version.value!r}; expected {FORMAT_VERSION}")
    return Request(
        groups=tuple(_read_group(entry) for entry in required(entries, "groups", top).items()),
        tasks=tuple(_read_task(entry) for entry in _list(entries, "tasks")),
        requires=tuple(_read_requirement(entry) for entry in _list(entries, "requires")),
        hosts=_texts(entries, "hosts"),
        not_hosts=_texts(entries, "not_hosts"),
        properties=_texts(entries, "properties"),
        duration=entries["duration"].number() if "duration" in entries else None,
        name=_text(entries, "name"),
        environment={key: entry.text(may_be_empty=True) for key, entry in _map(entries, "environment").items()},
        cwd=_text(entries, "cwd"),
        image=_text(entries, "image"),
        parameters={key: entry.scalar() for key, entry in _map(entries, "parameters").items()},
        options={key: entry.text(may_be_empty=True) for key, entry in _map(entries, "options").items()},
        ignored=_texts(entries, "ignored"),
    )


def _read_group(entry: Entry) -> Group:
    entries = entry.keys(("levels", "name"))
    levels = tuple(_read_level(level) for level in required(entries, "levels", entry).items())
    return Group(levels=levels, name=_text(entries, "name"))


def _read_level(entry: Entry) -> Level:
    entries = entry.keys(("type", "count", "unit", "shared", "exclusive", "abstract", "requires", "inside", "label"))
    return Level(
        type=required(entries, "type", entry).text(),
        count=_read_count(entries["count"]) if "count" in entries else Count(),
        unit=_text(entries, "unit"),
        shared="shared" in entries and entries["shared"].boolean(),
        exclusive="exclusive" in entries and entries["exclusive"].boolean(),
        abstract="abstract" in entries and entries["abstract"].boolean(),
        requires=tuple(_read_requirement(one) for one in _list(entries, "requires")),
        inside=tuple(_read_level(inner) for inner in _list(entries, "inside")),
        label=_text(entries, "label"),
    )


def _read_count(entry: Entry) -> Count:
    if not isinstance(entry.value, list):
        return Count(entry.integer())
    items = entry.items()
    if len(items) != 2:
        raise entry.error("a range must have two values")
    return Count(items[0].integer(), None if items[1].value is None else items[1].integer())


def _read_requirement(entry: Entry) -> Requirement:
    entries = entry.keys(("subsystem", "terms", "below"))
    return Requirement(
        required(entries, "subsystem", entry).text(),
        tuple(_read_term(term) for term in _list(entries, "terms")),
        tuple(_read_requirement(one) for one in _list(entries, "below")),
    )


def _read_term(entry: Entry) -> Term:
    entries = entry.keys(("field", "equals", "min", "max", "runs"))
    field = required(entries, "field", entry).text(may_be_empty=True)
    if "equals" in entries:
        return Equals(field, entries["equals"].scalar())
    if "runs" in entries:
        return Runs(field, entries["runs"].text(may_be_empty=True))
    return Within(field, **{key: entries[key].scalar() for key in ("min", "max") if key in entries})


def _read_task(entry: Entry) -> Task:
    entries = entry.keys(("command", "script", "group", "per_slot", "total"))
    return Task(
        command=tuple(word.text(may_be_empty=True) for word in _list(entries, "command")),
        script=_text(entries, "script"),
        group=_text(entries, "group"),
        per_slot=entries["per_slot"].integer() if "per_slot" in entries else 1,
        total=entries["total"].integer() if "total" in entries else None,
    )


def _list(entries: Mapping[str, Entry], key: str) -> list[Entry]:
    return entries[key].items() if key in entries else []


def _map(entries: Mapping[str, Entry], key: str) -> Mapping[str, Entry]:
    return entries[key].keys() if key in entries else {}


def _text(entries: Mapping[str, Entry], key: str) -> str:
    return entries[key].text() if key in entries else ""


def _texts(entries: Mapping[str, Entry], key: str) -> tuple[str, ...]:
    return tuple(entry.text(may_be_empty=True) for entry in _list(entries, key))
