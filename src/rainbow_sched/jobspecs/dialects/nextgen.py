"""Read the prototype's jobspec ("nextgen"): a map of named resources, and tasks that refer to them.

In a resource, `replicas` marks the slot, and counts below it are totals. The prototype's older form ("legacy") is a
list of resources as in Flux, with requirements per subsystem in the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.compatibility import DEFAULT_RULES, AttributeRule, apply_compatibility
from rainbow_sched.jobspecs.dialects.draft import MAX_TASKS, RequestDraft, read_command, read_task_count
from rainbow_sched.jobspecs.dialects.flux import FluxTree
from rainbow_sched.jobspecs.dialects.requirements import parse_requires, read_range
from rainbow_sched.jobspecs.reading.counts import WITHIN_A_NODE, split_evenly, spread_slot, times
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import TooLarge
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task, Term

TOP = ("version", "name", "resources", "tasks", "task", "groups", "requires", "attributes", "image", "compatibility")
TASK = (
    *("name", "command", "script", "resources", "group", "replicas", "count", "slot", "requires"),
    *("depends_on", "local", "steps", "attributes"),
)
RESOURCE = ("type", "count", "replicas", "with", "requires", "attributes", "schedule", "label", "exclusive", "unit")
ATTRIBUTES = ("duration", "environment", "cwd", "parameter", "image", "compatibility")
LEGACY_TOP = ("version", "name", "resources", "task", "tasks", "attributes")
LEGACY_TASK = ("command", "slot", "count", "resources", "name", "scripts", "attributes", "distribution")


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


def check_version(entries: Mapping[str, Entry]) -> None:
    """Refuse an unknown version; the version is optional."""
    version = entries.get("version")
    if version is not None and (isinstance(version.value, bool) or version.value not in (1, "1")):
        raise version.error("the version of a jobspec must be 1")


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
        if value.value is None or draft.read_attribute(key, value):
            continue
        if key == "parameter":
            draft.read_parameters(value)
        elif key not in ATTRIBUTES:
            draft.note(value, f"this attribute is not honoured{did_you_mean(key, ATTRIBUTES)}")


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
    blocks = entries["requires"].value if "requires" in entries else ()
    known = tuple(blocks) if isinstance(blocks, dict) else ()  # tasks can refer to the requirements of a map
    needed: dict[str, list[Requirement]] = {}
    for index, entry in enumerate(_task_list(entries)):
        task = entry.keys(TASK)
        for key in ("depends_on", "local", "steps", "attributes"):
            if key in task:
                draft.note(task[key], f"{key!r} of a task is not honoured")
        group = _group_of(task, _inline_name(entry, index), draft)
        if "requires" in task:
            needed.setdefault(group, []).extend(_task_requires(task["requires"], known, draft))
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


class NextgenTree:
    """Reads resources of the map and reports unsupported parts to the draft."""

    def __init__(self, draft: RequestDraft, *, only_scheduled: bool) -> None:
        self._draft = draft
        self._only_scheduled = only_scheduled

    def levels(self, entry: Entry) -> tuple[Level, ...]:
        """Return the levels of a top-level resource; none if only other resources have `schedule: true`."""
        if _has_slot(entry):
            return self._around_slot(entry, in_node=False, scheduled=False)
        return () if self._left_out(entry, False) else (self._totals(entry, 1, top=True),)

    def _left_out(self, entry: Entry, scheduled: bool) -> bool:
        if not self._only_scheduled or scheduled or is_scheduled(entry):
            return False
        self._draft.note(entry, "not asked for, because others say schedule: true")
        return True

    def _around_slot(self, entry: Entry, *, in_node: bool, scheduled: bool) -> tuple[Level, ...]:
        """Read a level at or above a slot; its count multiplies."""
        entries = entry.keys(RESOURCE)
        kind = required(entries, "type", entry).text()
        scheduled = scheduled or ("schedule" in entries and entries["schedule"].boolean())
        if kind == "slot" or "replicas" in entries:
            return () if self._left_out(entry, scheduled) else self._slot(entry, entries, kind, in_node)
        below = in_node or kind in WITHIN_A_NODE
        inside: list[Level] = []
        for child in children(entries):
            if _has_slot(child):
                inside.extend(self._around_slot(child, in_node=below, scheduled=scheduled))
            elif not self._left_out(child, scheduled):
                inside.append(self._totals(child, 1))
        if not inside:
            return ()
        return (self._level(entries, kind, self._count(entries), tuple(inside), abstract=True),)

    def _slot(self, entry: Entry, entries: Mapping[str, Entry], kind: str, in_node: bool) -> tuple[Level, ...]:
        for child in children(entries):
            if _has_slot(child):
                raise child.error("a slot is inside another slot; only one level of a resource may have replicas")
        inner = tuple(self._totals(child, 1) for child in children(entries))
        count = self._count(entries)
        replicas = self._draft.read_count(entries["replicas"]) if "replicas" in entries else Count(1)
        if kind == "slot":
            if not inner:
                raise entry.error("a slot needs 'with', the resources of each slot")
            for key in ("requires", "unit"):
                if key in entries:
                    raise entries[key].error(f"a slot is not a resource; put {key!r} on the resources inside it")
            label = entries["label"].text() if "label" in entries else ""
            self._note_attributes(entries)
            return spread_slot(times(replicas, count), inner, label=label, in_node=in_node)
        if not inner:
            return (self._level(entries, kind, times(replicas, count)),)
        if count != Count(1):
            raise entries["count"].error("give replicas (the number of slots) or count (per slot), not both")
        return (self._level(entries, kind, replicas, inner, shared=True, abstract=True),)

    def _totals(self, entry: Entry, parents: int, *, top: bool = False) -> Level:
        """Read a level below a slot; its count is a total that is spread evenly over `parents` vertices."""
        entries = entry.keys(RESOURCE)
        kind = required(entries, "type", entry).text()
        count = split_evenly(self._count(entries), parents)
        inside = tuple(self._totals(child, parents * count.min) for child in children(entries))
        return self._level(entries, kind, count, inside, abstract=top and bool(inside))

    def _level(
        self, entries: Mapping[str, Entry], kind: str, count: Count, inside: tuple[Level, ...] = (), **slot: bool
    ) -> Level:
        """Return the level of one resource; `slot` says if it is shared or abstract."""
        self._note_attributes(entries)
        return Level(
            type=kind,
            count=count,
            unit=entries["unit"].text(may_be_empty=True) if "unit" in entries else "",
            exclusive="exclusive" in entries and entries["exclusive"].boolean(),
            requires=parse_requires(entries["requires"]) if "requires" in entries else (),
            inside=inside,
            label=entries["label"].text(may_be_empty=True) if "label" in entries else "",
            **slot,
        )

    def _count(self, entries: Mapping[str, Entry]) -> Count:
        return self._draft.read_count(entries["count"]) if "count" in entries else Count(1)

    def _note_attributes(self, entries: Mapping[str, Entry]) -> None:
        """Apply duration, environment and cwd of a resource to the job, and report the other attributes."""
        if "attributes" not in entries:
            return
        for key, value in entries["attributes"].keys().items():
            known = key in ("duration", "environment", "cwd") and not getattr(self._draft, key)
            if value.value is None or not known or not self._draft.read_attribute(key, value):
                self._draft.note(value, "this attribute of a resource is not honoured")


def children(entries: Mapping[str, Entry]) -> list[Entry]:
    """Return the resources under `with`, which is a list or one resource."""
    if "with" not in entries:
        return []
    below = entries["with"]
    return [below] if isinstance(below.value, dict) else below.items()


def is_scheduled(entry: Entry) -> bool:
    """Return True if the resource or a resource inside it has `schedule: true`."""
    return any("schedule" in entries and entries["schedule"].boolean() for entries in _walk(entry))


def _has_slot(entry: Entry) -> bool:
    return any(
        "replicas" in entries or ("type" in entries and entries["type"].value == "slot") for entries in _walk(entry)
    )


def _walk(entry: Entry) -> Iterator[Mapping[str, Entry]]:
    """Iterate over the keys of a resource and of all resources inside it, from the top."""
    entries = entry.keys(RESOURCE)
    yield entries
    for child in children(entries):
        yield from _walk(child)


def from_legacy(data: object) -> Request:
    """Read a legacy jobspec from plain data."""
    top = Entry(data)
    entries = top.keys(LEGACY_TOP)
    draft = RequestDraft()
    check_version(entries)
    if "name" in entries:
        draft.name = entries["name"].text()
    tree = FluxTree(draft)
    draft.groups.extend(map(tree.group, required(entries, "resources", top).nonempty_items()))
    requirements: list[Requirement] = []
    tasks = entries["tasks"].nonempty_items() if "tasks" in entries else []
    for task in [*tasks, entries["task"]] if "task" in entries else tasks:
        _legacy_task(task, draft, tree, requirements)
    draft.require({"": requirements})
    if "attributes" in entries:
        read_attributes(entries["attributes"], draft)
    return draft.finish()


def _legacy_task(entry: Entry, draft: RequestDraft, tree: FluxTree, requirements: list[Requirement]) -> None:
    entries = entry.keys(LEGACY_TASK)
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
