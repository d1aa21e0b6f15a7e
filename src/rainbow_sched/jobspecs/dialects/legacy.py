"""The prototype's older jobspec: a list of resources, and requirements per subsystem beside the task."""

from __future__ import annotations

from collections.abc import Mapping

from rainbow_sched.jobspecs.dialects.draft import Draft, read_command
from rainbow_sched.jobspecs.dialects.flux import FluxTree
from rainbow_sched.jobspecs.dialects.nextgen import check_version, read_attributes
from rainbow_sched.jobspecs.dialects.requirements import read_range
from rainbow_sched.jobspecs.dialects.tasks import read_count
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.request import Equals, Group, Request, Requirement, Task, Term

TOP = ("version", "name", "resources", "task", "tasks", "attributes")
TASK = ("command", "slot", "count", "resources", "name", "scripts", "attributes", "distribution")


def from_legacy(data: object) -> Request:
    """Read the older form from plain data."""
    top = At(data)
    entries = top.keys(TOP)
    draft = Draft()
    check_version(entries)
    if "name" in entries:
        draft.name = entries["name"].text()
    tree = FluxTree(draft)
    for resource in need(entries, "resources", top).one_or_more():
        before = len(tree.labels)
        levels = tree.levels(resource)
        labels = tree.labels[before:]
        draft.groups.append(Group(levels=levels, name=labels[0] if len(labels) == 1 else ""))
    needed: list[Requirement] = []
    tasks = entries["tasks"].one_or_more() if "tasks" in entries else []
    for task in [*tasks, entries["task"]] if "task" in entries else tasks:
        _task(task, draft, tree, needed)
    draft.require({"": needed})
    if "attributes" in entries:
        read_attributes(entries["attributes"], draft)
    return draft.finish()


def _task(at: At, draft: Draft, tree: FluxTree, needed: list[Requirement]) -> None:
    entries = at.keys(TASK)
    slot = entries["slot"].text() if "slot" in entries else ""
    if slot and slot not in tree.labels:
        raise entries["slot"].refuse(f"no slot has the label {slot[:40]!r}")
    if "resources" in entries:
        found = tuple(
            requirement
            for name, block in entries["resources"].keys().items()
            for requirement in _requirements(name, block, draft)
        )
        needed.extend(found)
    for key in ("attributes", "distribution"):
        if key in entries:
            draft.note(entries[key], f"{key!r} of a task is not honoured")
    count = read_count(entries["count"], draft) if "count" in entries else (1, None)
    draft.tasks.append(tree.task(_runs(at, entries, draft), slot, count))


def _runs(at: At, entries: Mapping[str, At], draft: Draft) -> Task:
    """The command, or the first of the scripts."""
    if "command" in entries:
        if "scripts" in entries:
            draft.note(entries["scripts"], "scripts beside a command are not kept")
        return read_command(entries["command"])
    if "scripts" not in entries:
        raise at.refuse("a task needs a command")
    first, *others = entries["scripts"].one_or_more()
    for other in others:
        draft.note(other, "only the first script is run")
    return Task(script=need(first.keys(("name", "content")), "content", first).text())


def _requirements(subsystem: str, at: At, draft: Draft) -> list[Requirement]:
    """`match` and `range` of one subsystem; each entry may be met by its own vertex."""
    found: list[Requirement] = []
    for key, block in at.keys().items():
        if key == "match":
            found.extend(Requirement(subsystem, tuple(_match(item))) for item in block.one_or_more())
        elif key == "range":
            found.extend(Requirement(subsystem, (_range(item),)) for item in block.one_or_more())
        else:
            draft.note(block, f"only match and range are honoured, not {key[:40]!r}")
    return found


def _match(at: At) -> list[Term]:
    """`{field, value}`, or the still older `{<field>: <value>}`."""
    entries = at.keys()
    if not entries:
        raise at.refuse("expected field and value")
    if "field" in entries:
        at.keys(("field", "value", "match"))
        value = entries.get("value", entries.get("match"))
        if value is None:
            raise at.refuse("the key 'value' is missing")
        return [Equals(entries["field"].text(), value.scalar())]
    return [Equals(field, value.scalar()) for field, value in entries.items()]


def _range(at: At) -> Term:
    entries = at.keys(("field", "min", "max"))
    field = need(entries, "field", at).text()
    if "min" not in entries and "max" not in entries:
        raise at.refuse(f"the range on {field[:40]!r} needs min or max")
    return read_range(field, entries)
