"""The prototype's jobspec ("nextgen"): resources as a map of names, tasks that refer to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.compatibility import TABLE, Mapped, apply_compatibility
from rainbow_sched.jobspecs.dialects.draft import MAX_TASKS, Draft, read_command
from rainbow_sched.jobspecs.dialects.nextgen_tree import Tree, is_scheduled
from rainbow_sched.jobspecs.dialects.requirements import blocks, parse_requires
from rainbow_sched.jobspecs.dialects.tasks import read_count
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.errors import TooLarge
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Group, Request, Requirement, Task

TOP = ("version", "name", "resources", "tasks", "task", "groups", "requires", "attributes", "image", "compatibility")
TASK = (
    *("name", "command", "script", "resources", "group", "replicas", "count", "slot", "requires"),
    *("depends_on", "local", "steps", "attributes"),
)


def from_nextgen(data: object, table: Mapping[str, Mapped] = TABLE) -> Request:
    """Read a nextgen jobspec from plain data; `table` says what an image's compatibility asks of a cluster."""
    top = At(data)
    entries = top.keys(TOP)
    draft = Draft()
    check_version(entries)
    if "name" in entries:
        draft.name = entries["name"].text()
    if "attributes" in entries:
        read_attributes(entries["attributes"], draft)
    _resources(top, entries, draft)
    if "requires" in entries:
        draft.requires = parse_requires(entries["requires"])
    _tasks(entries, draft)
    if "groups" in entries:
        entries["groups"].items()
        draft.note(entries["groups"], "groups of tasks are not run; resources and tasks at the top are")
    _image(entries, draft, table)
    return draft.finish()


def check_version(entries: Mapping[str, At], allowed: tuple[int, ...] = (1,)) -> None:
    """Refuse a version that this reader does not know; none given is fine."""
    version = entries.get("version")
    if version is not None and (isinstance(version.value, bool) or version.value not in (*allowed, *map(str, allowed))):
        raise version.refuse(f"the version of a jobspec is {allowed[0]}")


def _resources(top: At, entries: Mapping[str, At], draft: Draft) -> None:
    named: dict[str, At] = {}
    if "resources" in entries:
        named.update(entries["resources"].keys())
    for index, task in enumerate(_task_list(entries)):
        inline = task.keys(TASK).get("resources")
        if inline is not None and isinstance(inline.value, dict):
            named.setdefault(_inline_name(task, index), inline)
    if not named:
        raise need(entries, "resources", top).refuse("a jobspec asks for at least one resource")
    tree = Tree(draft, only_scheduled=any(is_scheduled(resource) for resource in named.values()))
    for name, resource in named.items():
        if not name:
            raise resource.refuse("the resource has no name")
        levels = tree.levels(resource)
        if levels:
            draft.groups.append(Group(name=name, levels=levels))


def read_attributes(at: At, draft: Draft) -> None:
    """The attributes of a jobspec; what is not honoured is reported."""
    for key, value in at.keys().items():
        if value.value is None:
            continue
        if key == "duration":
            draft.read_duration(value)
        elif key == "environment":
            draft.read_environment(value)
        elif key == "cwd":
            draft.cwd = value.text()
        elif key == "parameter":
            draft.read_parameters(value)
        elif key not in ("image", "compatibility"):
            draft.note(value, f"this attribute is not honoured{did_you_mean(key, ATTRIBUTES)}")


ATTRIBUTES = ("duration", "environment", "cwd", "parameter", "image", "compatibility")


def _image(entries: Mapping[str, At], draft: Draft, table: Mapping[str, Mapped]) -> None:
    """An image and its compatibility document, at the top or among the attributes."""
    inner = entries["attributes"].keys() if "attributes" in entries else {}
    image = entries.get("image", inner.get("image"))
    if image is not None and image.value is not None:
        draft.image = image.text()
    spec = entries.get("compatibility", inner.get("compatibility"))
    if spec is not None and spec.value is not None:
        apply_compatibility(spec, draft, table)


def _task_list(entries: Mapping[str, At]) -> list[At]:
    found = entries["tasks"].items() if "tasks" in entries else []
    if len(found) > MAX_TASKS:
        raise TooLarge(f"a jobspec runs at most {MAX_TASKS} tasks", where=entries["tasks"].path)
    return [*found, entries["task"]] if "task" in entries else found


def _inline_name(task: At, index: int) -> str:
    name = task.keys(TASK).get("name")
    return name.text() if name is not None else f"task{index + 1}"


def _tasks(entries: Mapping[str, At], draft: Draft) -> None:
    known_blocks = blocks(entries["requires"]) if "requires" in entries else ()
    needed: dict[str, list[Requirement]] = {}
    for index, at in enumerate(_task_list(entries)):
        task = at.keys(TASK)
        for key in ("depends_on", "local", "steps", "attributes"):
            if key in task:
                draft.note(task[key], f"{key!r} of a task is not honoured")
        group = _group_of(task, _inline_name(at, index), draft)
        if "requires" in task:
            needed.setdefault(group, []).extend(_task_requires(task["requires"], known_blocks, draft))
        if "command" in task or "script" in task:
            draft.tasks.append(_task(task, group, draft))
        elif "group" in task:
            draft.note(task["group"], "groups of tasks are not run")
        elif "steps" not in task:
            raise at.refuse("a task needs a command")
    draft.require(needed)


def _task(entries: Mapping[str, At], group: str, draft: Draft) -> Task:
    if "script" in entries:
        if "command" in entries:
            raise entries["script"].refuse("a task has a command or a script, one of them")
        task = Task(script=entries["script"].text())
    else:
        task = read_command(entries["command"])
    per_slot, total = read_count(entries["count"], draft) if "count" in entries else (1, None)
    if "replicas" in entries:
        if "count" in entries:
            raise entries["replicas"].refuse("give replicas or count, not both")
        per_slot = entries["replicas"].whole()
    return replace(task, group=group, per_slot=per_slot, total=total)


def _group_of(task: Mapping[str, At], inline: str, draft: Draft) -> str:
    """The name of the group that a task runs on; empty: on all."""
    at = task.get("resources", task.get("slot"))
    if at is None or at.value == "":
        return ""
    if isinstance(at.value, dict):
        return inline
    name = at.text()
    if any(group.name == name for group in draft.groups):
        return name
    for group in draft.groups:
        if any(level.label == name for top in group.levels for level in top.walk()):
            return group.name
    draft.note(at, f"no resource {name[:60]!r} is asked for{did_you_mean(name, [g.name for g in draft.groups])}")
    return ""


def _task_requires(at: At, known: tuple[str, ...], draft: Draft) -> tuple[Requirement, ...]:
    """Requirements of a task hold at its nodes; text refers to a block that the whole job requires anyway."""
    if isinstance(at.value, str):
        for name in at.value.replace("|", ",").split(","):
            if name.strip() not in known:
                raise at.refuse(f"there is no requirement {name.strip()[:60]!r}{did_you_mean(name.strip(), known)}")
        if "|" in at.value:
            draft.note(at, "alternatives are not honoured: each of them is required")
        return ()
    return parse_requires(at)
