"""Read Flux jobspecs, version 1 (RFC 25) and canonical (RFC 14), with the optional extension `requires`.

Counts multiply down the tree. Slots become levels: see `spread_slot`. Resources inside a slot are
exclusive by default, as in RFC 14; a level without children is always allocated whole, so only
levels with children are marked exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.constraints import parse_constraint
from rainbow_sched.jobspecs.dialects.draft import RequestDraft, read_command, read_task_count
from rainbow_sched.jobspecs.dialects.requirements import parse_requires
from rainbow_sched.jobspecs.reading.counts import WITHIN_A_NODE, spread_slot
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import MAX_COUNT, Count, Group, Level, Request, Task

TOP = ("version", "resources", "tasks", "attributes", "requires")
RESOURCE = ("type", "count", "unit", "exclusive", "with", "label", "id", "requires")
TASK = ("command", "slot", "count", "attributes", "distribution")
VERSIONS = (1, 999, 9999)
OPTIONS = ("queue", "bank", "project")  # site-specific names


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
