"""Convert resources of a nextgen jobspec into levels: `replicas` marks the slot, counts below it are totals."""

from __future__ import annotations

from collections.abc import Mapping

from rainbow_sched.jobspecs.dialects.draft import RequestDraft
from rainbow_sched.jobspecs.dialects.requirements import parse_requires
from rainbow_sched.jobspecs.dialects.slots import WITHIN_A_NODE, spread_slot
from rainbow_sched.jobspecs.reading.counts import parse_count, split_evenly, times
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.request import Count, Level, Requirement

KEYS = ("type", "count", "replicas", "with", "requires", "attributes", "schedule", "label", "exclusive", "unit")


class NextgenTree:
    """Reads resources of the map and reports unsupported parts to the draft."""

    def __init__(self, draft: RequestDraft, *, only_scheduled: bool) -> None:
        self._draft = draft
        self._only_scheduled = only_scheduled

    def levels(self, entry: Entry) -> tuple[Level, ...]:
        """Return the levels of a top-level resource; none if only other resources have `schedule: true`."""
        if not _has_slot(entry):
            if self._left_out(entry, False):
                return ()
            return (self._totals(entry, 1, top=True),)
        return self._around_slot(entry, in_node=False, scheduled=False)

    def _left_out(self, entry: Entry, scheduled: bool) -> bool:
        if not self._only_scheduled or scheduled or is_scheduled(entry):
            return False
        self._draft.note(entry, "not asked for, because others say schedule: true")
        return True

    def _around_slot(self, entry: Entry, *, in_node: bool, scheduled: bool) -> tuple[Level, ...]:
        """Read a level at or above a slot; its count multiplies."""
        entries = entry.keys(KEYS)
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
        return (self._level(entries, kind, self._count(entries), inside=tuple(inside), abstract=True),)

    def _slot(self, entry: Entry, entries: Mapping[str, Entry], kind: str, in_node: bool) -> tuple[Level, ...]:
        for child in children(entries):
            if _has_slot(child):
                raise child.error("a slot is inside another slot; only one level of a resource may have replicas")
        inner = tuple(self._totals(child, 1) for child in children(entries))
        count = self._count(entries)
        replicas = self._parse_count(entries["replicas"]) if "replicas" in entries else Count(1)
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
        return (self._level(entries, kind, replicas, inside=inner, shared=True, abstract=True),)

    def _totals(self, entry: Entry, parents: int, *, top: bool = False) -> Level:
        """Read a level below a slot; its count is a total that is spread evenly over `parents` vertices."""
        entries = entry.keys(KEYS)
        kind = required(entries, "type", entry).text()
        count = split_evenly(self._count(entries), parents)
        inside = tuple(self._totals(child, parents * count.min) for child in children(entries))
        return self._level(entries, kind, count, inside=inside, abstract=top and bool(inside))

    def _level(
        self,
        entries: Mapping[str, Entry],
        kind: str,
        count: Count,
        *,
        inside: tuple[Level, ...] = (),
        shared: bool = False,
        abstract: bool = False,
    ) -> Level:
        self._note_attributes(entries)
        requires: tuple[Requirement, ...] = ()
        if "requires" in entries:
            requires = parse_requires(entries["requires"])
        return Level(
            type=kind,
            count=count,
            unit=entries["unit"].text() if "unit" in entries and entries["unit"].value != "" else "",
            shared=shared,
            exclusive="exclusive" in entries and entries["exclusive"].boolean(),
            abstract=abstract,
            requires=requires,
            inside=inside,
            label=entries["label"].text() if "label" in entries and entries["label"].value != "" else "",
        )

    def _count(self, entries: Mapping[str, Entry]) -> Count:
        return self._parse_count(entries["count"]) if "count" in entries else Count(1)

    def _parse_count(self, entry: Entry) -> Count:
        parsed = parse_count(entry)
        if parsed.note:
            self._draft.note(entry, parsed.note)
        return parsed.count

    def _note_attributes(self, entries: Mapping[str, Entry]) -> None:
        """Apply duration, environment and cwd of a resource to the job, and report the other attributes."""
        if "attributes" not in entries:
            return
        for key, value in entries["attributes"].keys().items():
            if key == "duration" and self._draft.duration is None and value.value is not None:
                self._draft.read_duration(value)
            elif key == "environment" and not self._draft.environment and value.value is not None:
                self._draft.read_environment(value)
            elif key == "cwd" and not self._draft.cwd and value.value is not None:
                self._draft.cwd = value.text()
            else:
                self._draft.note(value, "this attribute of a resource is not honoured")


def children(entries: Mapping[str, Entry]) -> list[Entry]:
    """Return the resources under `with`, which is a list or one resource."""
    if "with" not in entries:
        return []
    below = entries["with"]
    return [below] if isinstance(below.value, dict) else below.items()


def is_scheduled(entry: Entry) -> bool:
    """Return True if the resource or a resource inside it has `schedule: true`."""
    entries = entry.keys(KEYS)
    if "schedule" in entries and entries["schedule"].boolean():
        return True
    return any(is_scheduled(child) for child in children(entries))


def _has_slot(entry: Entry) -> bool:
    entries = entry.keys(KEYS)
    if "replicas" in entries or ("type" in entries and entries["type"].value == "slot"):
        return True
    return any(_has_slot(child) for child in children(entries))
