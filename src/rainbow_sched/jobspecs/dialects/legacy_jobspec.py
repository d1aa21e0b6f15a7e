"""Read the prototype's older jobspec: a list of resources, and requirements per subsystem in the task."""

from __future__ import annotations

from collections.abc import Mapping

from rainbow_sched.jobspecs.dialects.draft import RequestDraft, read_command, read_task_count
from rainbow_sched.jobspecs.dialects.flux import FluxTree
from rainbow_sched.jobspecs.dialects.nextgen import check_version, read_attributes
from rainbow_sched.jobspecs.dialects.requirements import read_range
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.request import Equals, Request, Requirement, Task, Term

TOP = ("version", "name", "resources", "task", "tasks", "attributes")
TASK = ("command", "slot", "count", "resources", "name", "scripts", "attributes", "distribution")


def from_legacy(data: object) -> Request:
    """Read a legacy jobspec from plain data."""
    top = Entry(data)
    entries = top.keys(TOP)
    draft = RequestDraft()
    check_version(entries)
    if "name" in entries:
        draft.name = entries["name"].text()
    tree = FluxTree(draft)
    draft.groups.extend(map(tree.group, required(entries, "resources", top).nonempty_items()))
    requirements: list[Requirement] = []
    tasks = entries["tasks"].nonempty_items() if "tasks" in entries else []
    for task in [*tasks, entries["task"]] if "task" in entries else tasks:
        _task(task, draft, tree, requirements)
    draft.require({"": requirements})
    if "attributes" in entries:
        read_attributes(entries["attributes"], draft)
    return draft.finish()


def _task(entry: Entry, draft: RequestDraft, tree: FluxTree, requirements: list[Requirement]) -> None:
    entries = entry.keys(TASK)
    slot = entries["slot"].text() if "slot" in entries else ""
    if slot and slot not in tree.labels:
        raise entries["slot"].error(f"no slot has the label {slot[:40]!r}")
    if "resources" in entries:
        for name, block in entries["resources"].keys().items():
            requirements.extend(_requirements(name, block, draft))
    for key in ("attributes", "distribution"):
        if key in entries:
            draft.note(entries[key], f"{key!r} of a task is not honoured")
    count = read_task_count(entries["count"], draft) if "count" in entries else (1, None)
    draft.tasks.append(tree.task(_command(entry, entries, draft), slot, count))


def _command(entry: Entry, entries: Mapping[str, Entry], draft: RequestDraft) -> Task:
    """Return the command or the first script."""
    if "command" in entries:
        if "scripts" in entries:
            draft.note(entries["scripts"], "scripts beside a command are not kept")
        return read_command(entries["command"])
    if "scripts" not in entries:
        raise entry.error("a task needs a command")
    first, *others = entries["scripts"].nonempty_items()
    for other in others:
        draft.note(other, "only the first script is run")
    return Task(script=required(first.keys(("name", "content")), "content", first).text())


def _requirements(subsystem: str, entry: Entry, draft: RequestDraft) -> list[Requirement]:
    """Read `match` and `range` of one subsystem; different vertices may satisfy different entries."""
    found: list[Requirement] = []
    for key, block in entry.keys().items():
        if key == "match":
            found.extend(Requirement(subsystem, tuple(_match(item))) for item in block.nonempty_items())
        elif key == "range":
            found.extend(Requirement(subsystem, (_range(item),)) for item in block.nonempty_items())
        else:
            draft.note(block, f"only match and range are honoured, not {key[:40]!r}")
    return found


def _match(entry: Entry) -> list[Term]:
    """Read `{field, value}` or the oldest form `{<field>: <value>}`."""
    entries = entry.keys()
    if not entries:
        raise entry.error("expected field and value")
    if "field" in entries:
        entry.keys(("field", "value", "match"))
        value = entries.get("value", entries.get("match"))
        if value is None:
            raise entry.error("the key 'value' is missing")
        return [Equals(entries["field"].text(), value.scalar())]
    return [Equals(field, value.scalar()) for field, value in entries.items()]


def _range(entry: Entry) -> Term:
    entries = entry.keys(("field", "min", "max"))
    field = required(entries, "field", entry).text()
    if "min" not in entries and "max" not in entries:
        raise entry.error(f"the range on {field[:40]!r} needs min or max")
    return read_range(field, entries)
