"""Read Flux jobspecs, version 1 (RFC 25) and canonical (RFC 14), with the optional extension `requires`; write V1.

Counts multiply down the tree. Slots become levels: see `spread_slot`. Resources inside a slot are
exclusive by default, as in RFC 14; a level without children is always allocated whole, so only
levels with children are marked exclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.constraints import parse_constraint, to_constraint
from rainbow_sched.jobspecs.dialects.draft import RequestDraft, read_command, read_task_count
from rainbow_sched.jobspecs.dialects.requirements import parse_requires
from rainbow_sched.jobspecs.reading.counts import WITHIN_A_NODE, spread_slot
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import Invalid, Unsupported
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import MAX_COUNT, Count, Group, Level, Request, Task

TOP = ("version", "resources", "tasks", "attributes", "requires")
RESOURCE = ("type", "count", "unit", "exclusive", "with", "label", "id", "requires")
TASK = ("command", "slot", "count", "attributes", "distribution")
VERSIONS = (1, 999, 9999)
OPTIONS = ("queue", "bank", "project")  # site-specific names
_DEFAULT_LABEL = "task"


def from_flux(data: object) -> Request:
    """Read a Flux jobspec from plain data."""
    top = Entry(data)
    entries = top.keys(TOP)
    draft = RequestDraft()
    version = required(entries, "version", top)
    if isinstance(version.value, bool) or version.value not in VERSIONS:
        raise version.error("the version must be 1 (or 999 for a canonical jobspec)")
    tree = FluxTree(draft)
    draft.groups.extend(map(tree.group, required(entries, "resources", top).nonempty_items()))
    _tasks(required(entries, "tasks", top), tree, draft)
    if "requires" in entries:
        draft.requires = parse_requires(entries["requires"])
    if "attributes" in entries or "requires" not in entries:
        _attributes(required(entries, "attributes", top), draft)
    return draft.finish()


class FluxTree:
    """Reads resource vertices and collects the labels of slots."""

    def __init__(self, draft: RequestDraft) -> None:
        self.labels: list[str] = []
        self._slots: dict[str, int] = {}  # number of slots by label, if no level of the request holds it
        self._draft = draft

    def group(self, entry: Entry) -> Group:
        """Return the group for one top-level resource, named after its slot."""
        before = len(self.labels)
        levels = self.levels(entry)
        labels = self.labels[before:]
        return Group(levels=levels, name=labels[0] if len(labels) == 1 else "")

    def task(self, task: Task, label: str, count: tuple[int, int | None]) -> Task:
        """Return the task on the slots of `label`, with a total if the slots were merged into their contents."""
        per_slot, total = count
        if total is None and label in self._slots:
            per_slot, total = 1, self._slots[label] * per_slot
            if total > MAX_COUNT:
                raise Invalid(f"a job has at most {MAX_COUNT} tasks; the slots of {label[:40]!r} need {total}")
        return replace(task, group=label, per_slot=per_slot, total=total)

    def levels(
        self, entry: Entry, *, above: int | None = 1, in_slot: bool = False, in_node: bool = False
    ) -> tuple[Level, ...]:
        """Return the levels for one vertex; `above` is the number of its parent vertices (None: a range)."""
        entries = entry.keys(RESOURCE)
        kind = required(entries, "type", entry).text()
        if kind == "gpu" and entries.get("count", entry).value == 0 and "with" not in entries:
            return ()  # Flux's tools write "no gpu" as count 0
        count = self._draft.read_count(required(entries, "count", entry))
        below = in_node or kind in WITHIN_A_NODE
        within = above * count.min if above is not None and count.exact else None
        inside = tuple(
            level
            for child in (entries["with"].nonempty_items() if "with" in entries else ())
            for level in self.levels(child, above=within, in_slot=in_slot or kind == "slot", in_node=below)
        )
        exclusive = entries["exclusive"].boolean() if "exclusive" in entries else in_slot or kind == "slot"
        if "id" in entries:
            self._draft.note(entries["id"], f"ids such as {entries['id'].text()[:40]!r} are not honoured")
        if kind == "slot":
            levels = self._slot(entry, entries, count, inside, in_node=in_node)
            if not levels[0].shared and within is not None:
                self._slots[self.labels[-1]] = within
            return levels
        if in_slot and not inside and not exclusive:
            self._draft.note(entries["exclusive"], "what is taken whole belongs to the job alone")
        return (
            Level(
                type=kind,
                count=count,
                unit=entries["unit"].text() if "unit" in entries else "",
                exclusive=exclusive and bool(inside),
                requires=parse_requires(entries["requires"]) if "requires" in entries else (),
                inside=inside,
                label=entries["label"].text() if "label" in entries else "",
            ),
        )

    def _slot(
        self, entry: Entry, entries: Mapping[str, Entry], count: Count, inside: tuple[Level, ...], *, in_node: bool
    ) -> tuple[Level, ...]:
        label = required(entries, "label", entry).text()
        if label in self.labels:
            raise entries["label"].error(f"duplicate label {label[:40]!r}")
        self.labels.append(label)
        if not inside:
            raise entry.error("a slot needs 'with', the resources of each slot")
        for key in ("requires", "unit"):
            if key in entries:
                raise entries[key].error(f"a slot is not a resource; put {key!r} on the resources inside it")
        if "exclusive" in entries and not entries["exclusive"].boolean():
            self._draft.note(entries["exclusive"], "a slot belongs to the job alone")
        return spread_slot(count, inside, label=label, in_node=in_node)


def _tasks(entry: Entry, tree: FluxTree, draft: RequestDraft) -> None:
    for item in entry.nonempty_items():
        entries = item.keys(TASK)
        command = required(entries, "command", item)
        command.items()  # RFC 14 requires a list
        slot = required(entries, "slot", item)
        if slot.text() not in tree.labels:
            raise slot.error(f"no slot has the label {slot.text()[:40]!r}{did_you_mean(slot.text(), tree.labels)}")
        count = read_task_count(required(entries, "count", item), draft)
        draft.tasks.append(tree.task(read_command(command), slot.text(), count))
        for key in ("attributes", "distribution"):
            if key in entries:
                draft.note(entries[key], f"{key!r} of a task is not honoured")


def _attributes(entry: Entry, draft: RequestDraft) -> None:
    entries = entry.keys(("system", "user", "parameter"))
    if "user" in entries and entries["user"].keys():
        draft.note(entries["user"], "user attributes are not kept")
    if "parameter" in entries:
        draft.read_parameters(entries["parameter"])
    for key, value in (entries["system"].keys() if "system" in entries else {}).items():
        if value.value is not None:
            _system(key, value, draft)


def _system(key: str, entry: Entry, draft: RequestDraft) -> None:
    """Read one system attribute; an unknown one is only reported, as in RFC 14."""
    if key == "duration":
        entry.number()
    if draft.read_attribute(key, entry):
        return
    if key in OPTIONS:
        draft.options[key] = entry.text()
    elif key == "constraints":
        constraint = parse_constraint(entry)
        draft.properties, draft.not_hosts = constraint.properties, constraint.not_hosts
        draft.hosts = constraint.hosts or ()
    elif key == "job":
        _job(entry, draft)
    elif key == "dependencies":
        _dependencies(entry, draft)
    else:
        draft.note(entry, "this system attribute is not honoured")


def _job(entry: Entry, draft: RequestDraft) -> None:
    for key, value in entry.keys().items():
        if key == "name":
            draft.name = value.text()
        else:
            draft.note(value, "this key of a job is not honoured")


def _dependencies(entry: Entry, draft: RequestDraft) -> None:
    for item in entry.items():
        entries = item.keys()
        required(entries, "scheme", item).text()
        required(entries, "value", item).text()
        draft.note(item, "dependencies between jobs are not honoured")


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
        if key in OPTIONS:
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
    candidates = range(least, min(amount, least + 10_000) + 1)
    return next((slots for slots in candidates if amount % slots == 0), amount if amount >= least else None)


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
