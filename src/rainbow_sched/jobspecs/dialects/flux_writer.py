"""A Request as a Flux Jobspec V1 (RFC 25), with the list of what V1 cannot say."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from rainbow_sched.jobspecs.dialects.constraints import as_constraint
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Level, Request, Task

_SITE = ("queue", "bank", "project")
_DEFAULT_LABEL = "task"


@dataclass(frozen=True, slots=True)
class Written:
    """A document, and one sentence for each thing it could not carry."""

    document: dict[str, object]
    left_out: tuple[str, ...]


def to_flux(request: Request) -> str:
    """The request as Flux V1 in JSON; raise `Unsupported` naming what V1 cannot say."""
    written = as_flux(request)
    if written.left_out:
        raise Unsupported(f"Flux jobspec V1 cannot say: {'; '.join(written.left_out)}")
    return json.dumps(written.document)


def as_flux(request: Request) -> Written:
    """The nearest Flux V1 document, with all that it leaves out; refuse only what has no shape in V1 at all."""
    left_out: list[str] = []
    level = _only_level(request, left_out)
    task = _only_task(request, left_out)
    resource, label, count = _resource(level, task, left_out)
    system: dict[str, object] = {"duration": float(request.duration or 0)}
    if request.cwd:
        system["cwd"] = request.cwd
    if request.environment:
        system["environment"] = dict(request.environment)
    if request.name:
        system["job"] = {"name": request.name}
    if constraint := as_constraint(request.properties, request.hosts, request.not_hosts):
        system["constraints"] = constraint
    for key, value in request.options.items():
        if key in _SITE:
            system[key] = value
        else:
            left_out.append(f"the option {key}={value}")
    left_out.extend(f"the requirement on {one.subsystem}" for one in request.requires)
    left_out.extend(f"the parameter {name}" for name in request.parameters)
    if request.image:
        left_out.append(f"the image {request.image}")
    document: dict[str, object] = {
        "version": 1,
        "resources": [resource],
        "tasks": [{"command": list(task.command), "slot": label, "count": count}],
        "attributes": {"system": system},
    }
    return Written(document, tuple(left_out))


def _only_level(request: Request, left_out: list[str]) -> Level:
    """V1 has one resource at the top: the first that is a node or lies in one."""
    if len(request.groups) > 1 or len(request.groups[0].levels) > 1:
        raise Unsupported("Flux jobspec V1 asks for one resource at the top; this request has several groups")
    level = request.groups[0].levels[0]
    while level.abstract and level.type != "node" and level.inside and level.count.max == 1:
        _leave_requires(level, left_out)
        left_out.append(f"that all lies in one {level.type}")
        if len(level.inside) > 1:
            raise Unsupported(f"Flux jobspec V1 asks for one resource at the top; {level.type} holds several")
        level = level.inside[0]
    return level


def _resource(level: Level, task: Task, left_out: list[str]) -> tuple[dict[str, object], str, dict[str, int]]:
    """One of V1's shapes, slot > (core, gpu) or node > slot > (core, gpu); its label; and the task's count."""
    _leave_requires(level, left_out)
    count = _exact(level, left_out)
    if level.type == "node" and not level.shared:
        return _nodes(level, count, task, left_out)
    label = level.label or _DEFAULT_LABEL
    if task.per_slot != 1 and task.total is None:
        left_out.append(f"{task.per_slot} tasks in each slot")
    how_many = {"per_slot": 1} if task.total is None else {"total": task.total}
    if level.type == "node":
        if level.exclusive:
            left_out.append("a node of its own for each slot")
        return _slot(count, _contents(level.inside, left_out), label), label, how_many
    if level.type == "core" and not level.inside:  # cores anywhere: each is a slot of its own
        return _slot(count, {"core": 1}, label), label, how_many
    raise Unsupported(f"Flux jobspec V1 asks for nodes or slots of cores and gpus, not for {level.type}")


def _nodes(level: Level, nodes: int, task: Task, left_out: list[str]) -> tuple[dict[str, object], str, dict[str, int]]:
    """Nodes with as many equal slots in each as the tasks need."""
    labels = [inner.label for inner in level.inside if inner.label]
    label = labels[0] if labels else level.label or _DEFAULT_LABEL
    tasks = task.per_slot if task.total is None else task.total
    contents = _contents(level.inside, left_out)
    if not level.inside:
        contents = {"core": max(1, -(-tasks // nodes))}
    slots = _slots_for(-(-tasks // nodes), math.gcd(*contents.values()))
    if slots is None or tasks < nodes:
        left_out.append(f"the number of tasks, {tasks} ({nodes} would run)")
        slots, tasks = 1, nodes
    node: dict[str, object] = {"type": "node", "count": nodes}
    if level.exclusive or not level.inside:
        node["exclusive"] = True
    node["with"] = [_slot(slots, {kind: amount // slots for kind, amount in contents.items()}, label)]
    return node, label, {"per_slot": 1} if tasks == nodes * slots else {"total": tasks}


def _slots_for(least: int, amount: int) -> int | None:
    """The least number of slots, of `least` or more, that share `amount` evenly; None if there is none."""
    for slots in range(least, min(amount, least + 10_000) + 1):
        if amount % slots == 0:
            return slots
    return amount if amount >= least else None


def _contents(levels: tuple[Level, ...], left_out: list[str]) -> dict[str, int]:
    """The cores and gpus of a slot; V1 always has cores."""
    found: dict[str, int] = {}
    for level in levels:
        _leave_requires(level, left_out)
        if level.type not in ("core", "gpu") or level.inside or level.unit:
            left_out.append(f"{level.count.min} {level.unit} {level.type}".replace("  ", " "))
        else:
            found[level.type] = found.get(level.type, 0) + _exact(level, left_out)
    return {kind: found.get(kind, 1) for kind in ("core", "gpu") if kind == "core" or kind in found}


def _slot(count: int, contents: dict[str, int], label: str) -> dict[str, object]:
    inside = [{"type": kind, "count": amount} for kind, amount in contents.items()]
    return {"type": "slot", "count": count, "label": label, "with": inside}


def _exact(level: Level, left_out: list[str]) -> int:
    if not level.count.exact:
        left_out.append(f"more than {level.count.min} {level.type}")
    return level.count.min


def _leave_requires(level: Level, left_out: list[str]) -> None:
    left_out.extend(f"the requirement on {one.subsystem} at each {level.type}" for one in level.requires)


def _only_task(request: Request, left_out: list[str]) -> Task:
    """V1 runs one task, and that is a command."""
    if len(request.tasks) > 1:
        raise Unsupported(f"Flux jobspec V1 runs one task; this request has {len(request.tasks)}")
    if not request.tasks:
        left_out.append("that nothing runs (it has a command: true)")
        return Task(command=("true",))
    if request.tasks[0].script:
        raise Unsupported("Flux jobspec V1 runs a command; a script goes through flux batch")
    return request.tasks[0]
