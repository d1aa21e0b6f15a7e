"""The one exact JSON form of a Request: stored with each job, hashed, and read back to an equal one.

Defaults are left out, keys are sorted and there are no blanks, so equal requests give equal
text. The key `rainbow` holds the version of the form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from rainbow_sched.jobspecs.reading.documents import Limits, read
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.request import (
    Count,
    Equals,
    Group,
    Level,
    Request,
    Requirement,
    Runs,
    Scalar,
    Task,
    Term,
    Within,
)

FORM = 1
LIMITS = Limits(bytes=4 * 1024 * 1024, depth=200, nodes=200_000)  # a read request can be longer than its source
_TEXTS = ("hosts", "not_hosts", "properties", "ignored")
_MAPS = ("environment", "options")
_WORDS = ("name", "cwd", "image")
_KEYS = ("rainbow", "groups", "tasks", "requires", "duration", "parameters", *_TEXTS, *_MAPS, *_WORDS)
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False).encode

Plain: TypeAlias = dict[str, object]


def to_json(request: Request) -> str:
    """The request's canonical text."""
    return _encode(to_data(request))


def from_json(text: str) -> Request:
    """The request that `to_json` wrote; anything else is refused."""
    return from_data(read(text, LIMITS).data)


def to_data(request: Request) -> Plain:
    """The canonical form as plain data."""
    data: Plain = {"rainbow": FORM, "groups": [_group(group) for group in request.groups]}
    if request.tasks:
        data["tasks"] = [_task(task) for task in request.tasks]
    if request.requires:
        data["requires"] = [_requirement(one) for one in request.requires]
    if request.duration is not None:
        data["duration"] = float(request.duration)
    for key in _TEXTS:
        if found := getattr(request, key):
            data[key] = list(found)
    for key in ("parameters", *_MAPS):
        if found := getattr(request, key):
            data[key] = dict(found)
    for key in _WORDS:
        if found := getattr(request, key):
            data[key] = found
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
    data: Plain = {"field": term.field}
    if term.min is not None:
        data["min"] = term.min
    if term.max is not None:
        data["max"] = term.max
    return data


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
    """The request that `to_data` described."""
    top = At(data)
    entries = top.keys(_KEYS)
    form = need(entries, "rainbow", top)
    if form.value != FORM:
        raise form.refuse(f"this is form {form.value!r}; only form {FORM} is known")
    return Request(
        groups=tuple(_read_group(at) for at in need(entries, "groups", top).items()),
        tasks=tuple(_read_task(at) for at in _list(entries, "tasks")),
        requires=tuple(_read_requirement(at) for at in _list(entries, "requires")),
        hosts=_texts(entries, "hosts"),
        not_hosts=_texts(entries, "not_hosts"),
        properties=_texts(entries, "properties"),
        duration=entries["duration"].number() if "duration" in entries else None,
        name=_text(entries, "name"),
        environment={key: _any_text(at) for key, at in _map(entries, "environment").items()},
        cwd=_text(entries, "cwd"),
        image=_text(entries, "image"),
        parameters={key: at.scalar() for key, at in _map(entries, "parameters").items()},
        options={key: _any_text(at) for key, at in _map(entries, "options").items()},
        ignored=_texts(entries, "ignored"),
    )


def _read_group(at: At) -> Group:
    entries = at.keys(("levels", "name"))
    levels = tuple(_read_level(level) for level in need(entries, "levels", at).items())
    return Group(levels=levels, name=_text(entries, "name"))


def _read_level(at: At) -> Level:
    entries = at.keys(("type", "count", "unit", "shared", "exclusive", "abstract", "requires", "inside", "label"))
    return Level(
        type=need(entries, "type", at).text(),
        count=_read_count(entries["count"]) if "count" in entries else Count(),
        unit=_text(entries, "unit"),
        shared="shared" in entries and entries["shared"].yes(),
        exclusive="exclusive" in entries and entries["exclusive"].yes(),
        abstract="abstract" in entries and entries["abstract"].yes(),
        requires=tuple(_read_requirement(one) for one in _list(entries, "requires")),
        inside=tuple(_read_level(inner) for inner in _list(entries, "inside")),
        label=_text(entries, "label"),
    )


def _read_count(at: At) -> Count:
    if not isinstance(at.value, list):
        return Count(at.whole())
    items = at.items()
    if len(items) != 2:
        raise at.refuse("a range has two ends")
    return Count(items[0].whole(), None if items[1].value is None else items[1].whole())


def _read_requirement(at: At) -> Requirement:
    entries = at.keys(("subsystem", "terms", "below"))
    return Requirement(
        need(entries, "subsystem", at).text(),
        tuple(_read_term(term) for term in _list(entries, "terms")),
        tuple(_read_requirement(one) for one in _list(entries, "below")),
    )


def _read_term(at: At) -> Term:
    entries = at.keys(("field", "equals", "min", "max", "runs"))
    field = _any_text(need(entries, "field", at))
    if "equals" in entries:
        return Equals(field, entries["equals"].scalar())
    if "runs" in entries:
        return Runs(field, _any_text(entries["runs"]))
    least: Scalar | None = entries["min"].scalar() if "min" in entries else None
    most: Scalar | None = entries["max"].scalar() if "max" in entries else None
    return Within(field, least, most)


def _read_task(at: At) -> Task:
    entries = at.keys(("command", "script", "group", "per_slot", "total"))
    return Task(
        command=tuple(_any_text(word) for word in _list(entries, "command")),
        script=_text(entries, "script"),
        group=_text(entries, "group"),
        per_slot=entries["per_slot"].whole() if "per_slot" in entries else 1,
        total=entries["total"].whole() if "total" in entries else None,
    )


def _list(entries: Mapping[str, At], key: str) -> list[At]:
    return entries[key].items() if key in entries else []


def _map(entries: Mapping[str, At], key: str) -> Mapping[str, At]:
    return entries[key].keys() if key in entries else {}


def _text(entries: Mapping[str, At], key: str) -> str:
    return entries[key].text() if key in entries else ""


def _texts(entries: Mapping[str, At], key: str) -> tuple[str, ...]:
    return tuple(_any_text(at) for at in _list(entries, key))


def _any_text(at: At) -> str:
    return "" if at.value == "" else at.text()
