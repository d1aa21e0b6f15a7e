"""A Request as a nextgen jobspec; raise `Unsupported` naming what that cannot say."""

from __future__ import annotations

import json

from rainbow.jobspecs.counts import times
from rainbow.model.errors import Unsupported
from rainbow.model.request import Count, Equals, Group, Level, Request, Requirement, Runs, Task, Term

Plain = dict[str, object]


def to_nextgen(request: Request) -> str:
    """The request as a nextgen jobspec in JSON, which is YAML too."""
    return json.dumps(as_nextgen(request))


def as_nextgen(request: Request) -> Plain:
    """The same as plain data."""
    for what, value in (("hosts", request.hosts or request.not_hosts), ("properties", request.properties)):
        if value:
            raise Unsupported(f"a nextgen jobspec cannot name {what}: {', '.join(value)}")
    if request.options:
        raise Unsupported(f"a nextgen jobspec has no options: {', '.join(request.options)}")
    document: Plain = {"version": 1}
    if request.name:
        document["name"] = request.name
    document["resources"] = _resources(request)
    if request.tasks:
        document["tasks"] = [_task(task) for task in request.tasks]
    if request.requires:
        document["requires"] = _requires(request.requires)
    attributes: Plain = {}
    if request.duration is not None:
        attributes["duration"] = request.duration
    if request.environment:
        attributes["environment"] = dict(request.environment)
    if request.parameters:
        attributes["parameter"] = dict(request.parameters)
    if request.cwd:
        attributes["cwd"] = request.cwd
    if attributes:
        document["attributes"] = attributes
    if request.image:
        document["image"] = request.image
    return document


def _resources(request: Request) -> Plain:
    found: Plain = {}
    for index, group in enumerate(request.groups):
        name = group.name or f"group{index + 1}"
        if name in found:
            raise Unsupported(f"a nextgen jobspec names its resources; two groups are called {name!r}")
        found[name] = _top(group)
    return found


def _top(group: Group) -> Plain:
    if len(group.levels) > 1:
        raise Unsupported("a nextgen jobspec has one resource at the top of a group")
    level = group.levels[0]
    return _around(level) if _has_host(level) else _totals(level, Count(1))


def _has_host(level: Level) -> bool:
    return any(inner.shared for inner in level.walk())


def _around(level: Level) -> Plain:
    """A level at or above the slot."""
    if level.shared:
        if any(_has_host(inner) for inner in level.inside):
            raise Unsupported(f"a nextgen jobspec has no slots within slots ({level.type})")
        data = _plain(level, "replicas", level.count)
        data["with"] = [_totals(inner, Count(1)) for inner in level.inside]
        return data
    data = _plain(level, "count", level.count)
    data["with"] = [_around(inner) if _has_host(inner) else _totals(inner, Count(1)) for inner in level.inside]
    return data


def _totals(level: Level, parents: Count) -> Plain:
    """A level below the slot: its count is the total over all vertices above it."""
    total = times(Count(parents.min), level.count)
    data = _plain(level, "count", total)
    if level.inside:
        data["with"] = [_totals(inner, total) for inner in level.inside]
    return data


def _plain(level: Level, key: str, count: Count) -> Plain:
    data: Plain = {"type": level.type, key: _count(count)}
    if level.unit:
        data["unit"] = level.unit
    if level.exclusive:
        data["exclusive"] = True
    if level.label:
        data["label"] = level.label
    if level.requires:
        data["requires"] = _requires(level.requires)
    return data


def _count(count: Count) -> object:
    if count.exact:
        return count.min
    return {"min": count.min} if count.max is None else {"min": count.min, "max": count.max}


def _requires(requirements: tuple[Requirement, ...]) -> object:
    """The list form, unless vertices below are asked for: that takes the tree form."""
    if not any(one.below for one in requirements):
        return [_entry(one) for one in requirements]
    tree: dict[str, list[Plain]] = {}
    for one in requirements:
        tree.setdefault(one.subsystem, []).append(_vertex(one))
    return tree


def _entry(requirement: Requirement) -> Plain:
    if len(requirement.terms) == 1:
        return {"name": requirement.subsystem, **_term(requirement.terms[0])}
    return {"name": requirement.subsystem, "all": [_term(term) for term in requirement.terms]}


def _term(term: Term) -> Plain:
    return {"field": term.field, **_test(term)}


def _test(term: Term) -> Plain:
    if isinstance(term, Equals):
        return {"match": term.value}
    if isinstance(term, Runs):
        return {"runs": term.target}
    return {key: value for key, value in (("min", term.min), ("max", term.max)) if value is not None}


def _vertex(requirement: Requirement) -> Plain:
    data: Plain = {}
    for term in requirement.terms:
        if term.field in data or term.field == "with":
            raise Unsupported(f"the tree form asks one thing of the field {term.field!r}")
        data[term.field] = _test(term)
    if requirement.below:
        data["with"] = [_vertex(one) for one in requirement.below]
    return data


def _task(task: Task) -> Plain:
    data: Plain = {"command": list(task.command)} if task.command else {"script": task.script}
    if task.group:
        data["resources"] = task.group
    if task.total is not None:
        data["count"] = {"total": task.total}
    elif task.per_slot != 1:
        data["replicas"] = task.per_slot
    return data
