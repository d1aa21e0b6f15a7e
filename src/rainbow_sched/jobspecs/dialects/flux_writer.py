"""Convert a Request to Flux Jobspec V1 (RFC 25)."""

from __future__ import annotations

import math

from rainbow_sched.jobspecs.dialects.constraints import to_constraint
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Level, Request, Task

_SITE = ("queue", "bank", "project")
_DEFAULT_LABEL = "task"


def to_flux(request: Request) -> dict[str, object]:
    """Convert the request to Flux Jobspec V1; raise `Unsupported` with all that V1 cannot express."""
    unsupported: list[str] = []
    level = _only_level(request, unsupported)
    task = _only_task(request, unsupported)
    resource, label, count = _resource(level, task, unsupported)
    system: dict[str, object] = {"duration": float(request.duration or 0)}
    optional = {
        "cwd": request.cwd,
        "environment": dict(request.environment),
        "job": {"name": request.name} if request.name else None,
        "constraints": to_constraint(request.properties, request.hosts, request.not_hosts),
    }
    system |= {key: value for key, value in optional.items() if value}
    for key, value in request.options.items():
        if key in _SITE:
            system[key] = value
        else:
            unsupported.append(f"the option {key}={value}")
    unsupported.extend(f"the requirement on {one.subsystem}" for one in request.requires)
    unsupported.extend(f"the parameter {name}" for name in request.parameters)
    if request.image:
        unsupported.append(f"the image {request.image}")
    document: dict[str, object] = {
        "version": 1,
        "resources": [resource],
        "tasks": [{"command": list(task.command), "slot": label, "count": count}],
        "attributes": {"system": system},
    }
    if unsupported:
        raise Unsupported(f"Flux jobspec V1 cannot express: {'; '.join(unsupported)}")
    return document


def _only_level(request: Request, unsupported: list[str]) -> Level:
    """Return the top resource of V1: the first level that is a node or lies in one."""
    if len(request.groups) > 1 or len(request.groups[0].levels) > 1:
        raise Unsupported("Flux jobspec V1 has one top-level resource; this request has several groups")
    level = request.groups[0].levels[0]
    while level.abstract and level.type != "node" and level.inside and level.count.max == 1:
        _add_requires(level, unsupported)
        unsupported.append(f"placement in one {level.type}")
        if len(level.inside) > 1:
            raise Unsupported(f"Flux jobspec V1 has one top-level resource; {level.type} contains several")
        level = level.inside[0]
    return level


def _resource(level: Level, task: Task, unsupported: list[str]) -> tuple[dict[str, object], str, dict[str, int]]:
    """Return a slot of cores and gpus, or nodes with such slots; the label; and the task's count."""
    _add_requires(level, unsupported)
    count = _exact(level, unsupported)
    if level.type == "node" and not level.shared:
        return _nodes(level, count, task, unsupported)
    label = level.label or _DEFAULT_LABEL
    if task.per_slot != 1 and task.total is None:
        unsupported.append(f"{task.per_slot} tasks in each slot")
    how_many = {"per_slot": 1} if task.total is None else {"total": task.total}
    if level.type == "node":
        if level.exclusive:
            unsupported.append("an exclusive node for each slot")
        return _slot(count, _contents(level.inside, unsupported), label), label, how_many
    if level.type == "core" and not level.inside:  # cores anywhere: each is its own slot
        return _slot(count, {"core": 1}, label), label, how_many
    raise Unsupported(f"Flux jobspec V1 takes nodes or slots of cores and gpus, not {level.type}")


def _nodes(
    level: Level, nodes: int, task: Task, unsupported: list[str]
) -> tuple[dict[str, object], str, dict[str, int]]:
    """Return nodes that each have as many equal slots as the tasks need."""
    labels = [inner.label for inner in level.inside if inner.label]
    label = labels[0] if labels else level.label or _DEFAULT_LABEL
    tasks = task.per_slot if task.total is None else task.total
    contents = _contents(level.inside, unsupported)
    if not level.inside:
        contents = {"core": max(1, -(-tasks // nodes))}
    slots = _slots_for(-(-tasks // nodes), math.gcd(*contents.values()))
    if slots is None or tasks < nodes:
        unsupported.append(f"the number of tasks, {tasks} ({nodes} would run)")
        slots, tasks = 1, nodes
    node: dict[str, object] = {"type": "node", "count": nodes}
    if level.exclusive or not level.inside:
        node["exclusive"] = True
    node["with"] = [_slot(slots, {kind: amount // slots for kind, amount in contents.items()}, label)]
    return node, label, {"per_slot": 1} if tasks == nodes * slots else {"total": tasks}


def _slots_for(least: int, amount: int) -> int | None:
    """Return the smallest number of slots, at least `least`, that divides `amount`; None if there is none."""
    for slots in range(least, min(amount, least + 10_000) + 1):
        if amount % slots == 0:
            return slots
    return amount if amount >= least else None


def _contents(levels: tuple[Level, ...], unsupported: list[str]) -> dict[str, int]:
    """Return the cores and gpus of a slot; V1 needs at least one core."""
    found: dict[str, int] = {}
    for level in levels:
        _add_requires(level, unsupported)
        if level.type not in ("core", "gpu") or level.inside or level.unit:
            unsupported.append(f"{level.count.min} {level.unit} {level.type}".replace("  ", " "))
        else:
            found[level.type] = found.get(level.type, 0) + _exact(level, unsupported)
    return {kind: found.get(kind, 1) for kind in ("core", "gpu") if kind == "core" or kind in found}


def _slot(count: int, contents: dict[str, int], label: str) -> dict[str, object]:
    inside = [{"type": kind, "count": amount} for kind, amount in contents.items()]
    return {"type": "slot", "count": count, "label": label, "with": inside}


def _exact(level: Level, unsupported: list[str]) -> int:
    if not level.count.exact:
        unsupported.append(f"more than {level.count.min} {level.type}")
    return level.count.min


def _add_requires(level: Level, unsupported: list[str]) -> None:
    unsupported.extend(f"the requirement on {one.subsystem} at each {level.type}" for one in level.requires)


def _only_task(request: Request, unsupported: list[str]) -> Task:
    """Return the task; V1 runs one command."""
    if len(request.tasks) > 1:
        raise Unsupported(f"Flux jobspec V1 runs one task; this request has {len(request.tasks)}")
    if not request.tasks:
        unsupported.append("a job without a command")
        return Task(command=("true",))
    if request.tasks[0].script:
        raise Unsupported("Flux jobspec V1 runs a command; use flux batch for a script")
    return request.tasks[0]
