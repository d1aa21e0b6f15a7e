"""Convert a Request to a nextgen jobspec."""

from __future__ import annotations

from rainbow_sched.jobspecs.reading.counts import times
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Count, Equals, Level, Request, Requirement, Runs, Task, Term

Plain = dict[str, object]


def to_nextgen(request: Request) -> Plain:
    """Convert the request to nextgen, without options, hosts and properties; raise `Unsupported` for nested slots."""
    attributes = _given(
        duration=request.duration,
        environment=dict(request.environment),
        parameter=dict(request.parameters),
        cwd=request.cwd,
    )
    return _given(
        version=1,
        name=request.name,
        resources=_resources(request),
        tasks=[_task(task) for task in request.tasks],
        requires=_requires(request.requires),
        attributes=attributes,
        image=request.image,
    )


def _given(**values: object) -> Plain:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value}


def _resources(request: Request) -> Plain:
    """Return one resource for each top level, named after its group."""
    found: Plain = {}
    for index, group in enumerate(request.groups):
        for level in group.levels:
            name = plain = group.name or f"group{index + 1}"
            number = 1
            while name in found:
                number += 1
                name = f"{plain}-{number}"
            found[name] = _around(level)
    return found


def _has_host(level: Level) -> bool:
    return any(inner.shared for inner in level.walk())


def _around(level: Level) -> Plain:
    """Convert a level at or above the slot, or one without slots."""
    if not _has_host(level):
        return _totals(level, Count(1))
    if level.shared and any(_has_host(inner) for inner in level.inside):
        raise Unsupported(f"a nextgen jobspec cannot nest slots ({level.type})")
    data = _plain(level, "replicas" if level.shared else "count", level.count)
    data["with"] = [_around(inner) for inner in level.inside]
    return data


def _totals(level: Level, parents: Count) -> Plain:
    """Convert a level below the slot; its count becomes the total over all vertices above it."""
    total = times(Count(parents.min), level.count)
    data = _plain(level, "count", total)
    if level.inside:
        data["with"] = [_totals(inner, total) for inner in level.inside]
    return data


def _plain(level: Level, key: str, count: Count) -> Plain:
    requires = _requires(level.requires)
    more = _given(unit=level.unit, exclusive=level.exclusive, label=level.label, requires=requires)
    return {"type": level.type, key: _count(count), **more}


def _count(count: Count) -> object:
    if count.exact:
        return count.min
    return {"min": count.min} if count.max is None else {"min": count.min, "max": count.max}


def _requires(requirements: tuple[Requirement, ...]) -> object:
    """Return the list form, or the tree form if a requirement has vertices below."""
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
            raise Unsupported(f"the tree form takes one condition for the field {term.field!r}")
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
