"""Flux jobspecs, version 1 (RFC 25) and canonical (RFC 14), with our optional `requires` beside them.

Counts multiply down the tree. A `slot` disappears: see `slots.py`. What is inside a slot is
exclusive unless it says otherwise, as RFC 14 has it; for something taken whole that is
implied, so only levels with something inside carry the mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.dialects.constraints import parse_constraint
from rainbow_sched.jobspecs.dialects.draft import Draft, read_command
from rainbow_sched.jobspecs.dialects.requirements import parse_requires
from rainbow_sched.jobspecs.dialects.slots import WITHIN_A_NODE, spread_slot
from rainbow_sched.jobspecs.dialects.tasks import read_count
from rainbow_sched.jobspecs.reading.counts import parse_count
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import MAX_COUNT, Count, Group, Level, Request, Task

TOP = ("version", "resources", "tasks", "attributes", "requires")
RESOURCE = ("type", "count", "unit", "exclusive", "with", "label", "id", "requires")
TASK = ("command", "slot", "count", "attributes", "distribution")
VERSIONS = (1, 999, 9999)
OPTIONS = ("queue", "bank", "project")  # names of one site


def from_flux(data: object) -> Request:
    """Read a Flux jobspec from plain data."""
    top = At(data)
    entries = top.keys(TOP)
    draft = Draft()
    version = need(entries, "version", top)
    if isinstance(version.value, bool) or version.value not in VERSIONS:
        raise version.refuse("the version is 1 (or 999 for a canonical jobspec)")
    tree = FluxTree(draft)
    for resource in need(entries, "resources", top).one_or_more():
        before = len(tree.labels)
        levels = tree.levels(resource)
        labels = tree.labels[before:]
        draft.groups.append(Group(levels=levels, name=labels[0] if len(labels) == 1 else ""))
    _tasks(need(entries, "tasks", top), tree, draft)
    if "requires" in entries:
        draft.requires = parse_requires(entries["requires"])
    if "attributes" in entries or "requires" not in entries:
        _attributes(need(entries, "attributes", top), draft)
    return draft.finish()


class FluxTree:
    """Reads resource vertices, and keeps the labels of the slots it met."""

    def __init__(self, draft: Draft) -> None:
        self.labels: list[str] = []
        self._slots: dict[str, int] = {}  # how many there are in all, where no level of the request tells it
        self._draft = draft

    def task(self, task: Task, label: str, count: tuple[int, int | None]) -> Task:
        """The task on the slots of `label`; those that went into their contents are counted here."""
        per_slot, total = count
        if total is None and label in self._slots:
            per_slot, total = 1, self._slots[label] * per_slot
            if total > MAX_COUNT:
                raise Invalid(f"a job runs at most {MAX_COUNT} tasks; the slots of {label[:40]!r} ask for {total}")
        return replace(task, group=label, per_slot=per_slot, total=total)

    def levels(
        self, at: At, *, above: int | None = 1, in_slot: bool = False, in_node: bool = False
    ) -> tuple[Level, ...]:
        """The levels that one vertex stands for; `above` vertices hold it in all (None: a range of them)."""
        entries = at.keys(RESOURCE)
        kind = need(entries, "type", at).text()
        if kind == "gpu" and entries.get("count", at).value == 0 and "with" not in entries:
            return ()  # Flux's own tools write "no gpu" so
        count = self._count(need(entries, "count", at))
        below = in_node or kind in WITHIN_A_NODE
        within = above * count.min if above is not None and count.exact else None
        inside = tuple(
            level
            for child in (entries["with"].one_or_more() if "with" in entries else ())
            for level in self.levels(child, above=within, in_slot=in_slot or kind == "slot", in_node=below)
        )
        exclusive = entries["exclusive"].yes() if "exclusive" in entries else in_slot or kind == "slot"
        if "id" in entries:
            self._draft.note(entries["id"], f"ids such as {entries['id'].text()[:40]!r} are not honoured")
        if kind == "slot":
            levels = self._slot(at, entries, count, inside, in_node=in_node)
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
        self, at: At, entries: Mapping[str, At], count: Count, inside: tuple[Level, ...], *, in_node: bool
    ) -> tuple[Level, ...]:
        label = need(entries, "label", at).text()
        if label in self.labels:
            raise entries["label"].refuse(f"the label {label[:40]!r} is there twice")
        self.labels.append(label)
        if not inside:
            raise at.refuse("a slot needs 'with': what each slot holds")
        for key in ("requires", "unit"):
            if key in entries:
                raise entries[key].refuse(f"a slot is no resource: write {key!r} on what it holds")
        if "exclusive" in entries and not entries["exclusive"].yes():
            self._draft.note(entries["exclusive"], "a slot belongs to the job alone")
        return spread_slot(count, inside, label=label, in_node=in_node)

    def _count(self, at: At) -> Count:
        asked = parse_count(at)
        if asked.note:
            self._draft.note(at, asked.note)
        return asked.count


def _tasks(at: At, tree: FluxTree, draft: Draft) -> None:
    for item in at.one_or_more():
        entries = item.keys(TASK)
        command = need(entries, "command", item)
        command.items()  # RFC 14: a list, never one string
        slot = need(entries, "slot", item)
        if slot.text() not in tree.labels:
            raise slot.refuse(f"no slot has the label {slot.text()[:40]!r}{did_you_mean(slot.text(), tree.labels)}")
        count = read_count(need(entries, "count", item), draft)
        draft.tasks.append(tree.task(read_command(command), slot.text(), count))
        for key in ("attributes", "distribution"):
            if key in entries:
                draft.note(entries[key], f"{key!r} of a task is not honoured")


def _attributes(at: At, draft: Draft) -> None:
    entries = at.keys(("system", "user", "parameter"))
    if "user" in entries and entries["user"].keys():
        draft.note(entries["user"], "user attributes are not kept")
    if "parameter" in entries:
        draft.read_parameters(entries["parameter"])
    for key, value in (entries["system"].keys() if "system" in entries else {}).items():
        if value.value is not None:
            _system(key, value, draft)


def _system(key: str, at: At, draft: Draft) -> None:
    """One system attribute; RFC 14: an unknown one is at most worth a warning."""
    if key == "duration":
        at.number()
        draft.read_duration(at)
    elif key == "environment":
        draft.read_environment(at)
    elif key == "cwd":
        draft.cwd = at.text()
    elif key in OPTIONS:
        draft.options[key] = at.text()
    elif key == "constraints":
        found = parse_constraint(at)
        draft.properties, draft.not_hosts = found.properties, found.not_hosts
        draft.hosts = found.hosts or ()
    elif key == "job":
        _job(at, draft)
    elif key == "dependencies":
        _dependencies(at, draft)
    else:
        draft.note(at, "this system attribute is not honoured")


def _job(at: At, draft: Draft) -> None:
    for key, value in at.keys().items():
        if key == "name":
            draft.name = value.text()
        else:
            draft.note(value, "this key of a job is not honoured")


def _dependencies(at: At, draft: Draft) -> None:
    for item in at.items():
        entries = item.keys()
        need(entries, "scheme", item).text()
        need(entries, "value", item).text()
        draft.note(item, "dependencies between jobs are not honoured")
