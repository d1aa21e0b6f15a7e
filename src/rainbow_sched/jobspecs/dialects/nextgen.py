"""Read the prototype's jobspec ("nextgen"): a map of named resources, and tasks that refer to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.compatibility import DEFAULT_RULES, AttributeRule, apply_compatibility
from rainbow_sched.jobspecs.dialects.draft import MAX_TASKS, RequestDraft, read_command, read_task_count
from rainbow_sched.jobspecs.dialects.nextgen_tree import NextgenTree, is_scheduled
from rainbow_sched.jobspecs.dialects.requirements import block_names, parse_requires
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import TooLarge
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Group, Request, Requirement, Task

TOP = ("version", "name", "resources", "tasks", "task", "groups", "requires", "attributes", "image", "compatibility")
TASK = (
    *("name", "command", "script", "resources", "group", "replicas", "count", "slot", "requires"),
    *("depends_on", "local", "steps", "attributes"),
)


def from_nextgen(data: object, rules: Mapping[str, AttributeRule] = DEFAULT_RULES) -> Request:
    """Read a nextgen jobspec from plain data; `rules` convert an image's compatibility document."""
    top = Entry(data)
    entries = top.keys(TOP)
    draft = RequestDraft()
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
    _image(entries, draft, rules)
    return draft.finish()


def check_version(entries: Mapping[str, Entry], allowed: tuple[int, ...] = (1,)) -> None:
    """Refuse an unknown version; the version is optional."""
    version = entries.get("version")
    if version is not None and (isinstance(version.value, bool) or version.value not in (*allowed, *map(str, allowed))):
        raise version.error(f"the version of a jobspec must be {allowed[0]}")


def _resources(top: Entry, entries: Mapping[str, Entry], draft: RequestDraft) -> None:
    named: dict[str, Entry] = {}
    if "resources" in entries:
        named.update(entries["resources"].keys())
    for index, task in enumerate(_task_list(entries)):
        inline = task.keys(TASK).get("resources")
        if inline is not None and isinstance(inline.value, dict):
            named.setdefault(_inline_name(task, index), inline)
    if not named:
        raise required(entries, "resources", top).error("a jobspec must have at least one resource")
    tree = NextgenTree(draft, only_scheduled=any(is_scheduled(resource) for resource in named.values()))
    for name, resource in named.items():
        if not name:
            raise resource.error("the resource has no name")
        levels = tree.levels(resource)
        if levels:
            draft.groups.append(Group(name=name, levels=levels))


def read_attributes(entry: Entry, draft: RequestDraft) -> None:
    """Read the attributes of a jobspec; unsupported ones are reported."""
    for key, value in entry.keys().items():
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


def _image(entries: Mapping[str, Entry], draft: RequestDraft, rules: Mapping[str, AttributeRule]) -> None:
    """Read an image and its compatibility document, from the top level or the attributes."""
    inner = entries["attributes"].keys() if "attributes" in entries else {}
    image = entries.get("image", inner.get("image"))
    if image is not None and image.value is not None:
        draft.image = image.text()
    spec = entries.get("compatibility", inner.get("compatibility"))
    if spec is not None and spec.value is not None:
        apply_compatibility(spec, draft, rules)


def _task_list(entries: Mapping[str, Entry]) -> list[Entry]:
    found = entries["tasks"].items() if "tasks" in entries else []
    if len(found) > MAX_TASKS:
        raise TooLarge(f"a jobspec has at most {MAX_TASKS} tasks", where=entries["tasks"].path)
    return [*found, entries["task"]] if "task" in entries else found


def _inline_name(task: Entry, index: int) -> str:
    name = task.keys(TASK).get("name")
    return name.text() if name is not None else f"task{index + 1}"


def _tasks(entries: Mapping[str, Entry], draft: RequestDraft) -> None:
    known_blocks = block_names(entries["requires"]) if "requires" in entries else ()
    needed: dict[str, list[Requirement]] = {}
    for index, entry in enumerate(_task_list(entries)):
        task = entry.keys(TASK)
        for key in ("depends_on", "local", "steps", "attributes"):
            if key in task:
                draft.note(task[key], f"{key!r} of a task is not honoured")
        group = _group_of(task, _inline_name(entry, index), draft)
        if "requires" in task:
            needed.setdefault(group, []).extend(_task_requires(task["requires"], known_blocks, draft))
        if "command" in task or "script" in task:
            draft.tasks.append(_task(task, group, draft))
        elif "group" in task:
            draft.note(task["group"], "groups of tasks are not run")
        elif "steps" not in task:
            raise entry.error("a task needs a command")
    draft.require(needed)


def _task(entries: Mapping[str, Entry], group: str, draft: RequestDraft) -> Task:
    if "script" in entries:
        if "command" in entries:
            raise entries["script"].error("give a command or a script, not both")
        task = Task(script=entries["script"].text())
    else:
        task = read_command(entries["command"])
    per_slot, total = read_task_count(entries["count"], draft) if "count" in entries else (1, None)
    if "replicas" in entries:
        if "count" in entries:
            raise entries["replicas"].error("give replicas or count, not both")
        per_slot = entries["replicas"].integer()
    return replace(task, group=group, per_slot=per_slot, total=total)


def _group_of(task: Mapping[str, Entry], inline: str, draft: RequestDraft) -> str:
    """Return the name of the group that a task runs on; empty: on all groups."""
    entry = task.get("resources", task.get("slot"))
    if entry is None or entry.value == "":
        return ""
    if isinstance(entry.value, dict):
        return inline
    name = entry.text()
    if any(group.name == name for group in draft.groups):
        return name
    for group in draft.groups:
        if any(level.label == name for top in group.levels for level in top.walk()):
            return group.name
    draft.note(entry, f"no resource {name[:60]!r} is asked for{did_you_mean(name, [g.name for g in draft.groups])}")
    return ""


def _task_requires(entry: Entry, known: tuple[str, ...], draft: RequestDraft) -> tuple[Requirement, ...]:
    """Read requirements on the nodes of a task; text refers to named blocks, which the whole job requires anyway."""
    if isinstance(entry.value, str):
        for name in entry.value.replace("|", ",").split(","):
            if name.strip() not in known:
                raise entry.error(f"there is no requirement {name.strip()[:60]!r}{did_you_mean(name.strip(), known)}")
        if "|" in entry.value:
            draft.note(entry, "alternatives are not honoured: each of them is required")
        return ()
    return parse_requires(entry)
