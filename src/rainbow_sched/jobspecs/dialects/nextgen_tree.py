"""The resources of a nextgen jobspec into levels: `replicas` marks the slot, counts below it are its totals."""

from __future__ import annotations

from collections.abc import Mapping

from rainbow_sched.jobspecs.dialects.draft import Draft
from rainbow_sched.jobspecs.dialects.requirements import parse_requires
from rainbow_sched.jobspecs.dialects.slots import WITHIN_A_NODE, spread_slot
from rainbow_sched.jobspecs.reading.counts import parse_count, shared_out, times
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.request import Count, Level, Requirement

KEYS = ("type", "count", "replicas", "with", "requires", "attributes", "schedule", "label", "exclusive", "unit")


class Tree:
    """Reads one resource of the map, reporting into the draft what it cannot honour."""

    def __init__(self, draft: Draft, *, only_scheduled: bool) -> None:
        self._draft = draft
        self._only_scheduled = only_scheduled

    def levels(self, at: At) -> tuple[Level, ...]:
        """The levels of a top-level resource; none if only others are to be scheduled."""
        if not _has_slot(at):
            if self._left_out(at, False):
                return ()
            return (self._totals(at, 1, top=True),)
        return self._around_slot(at, in_node=False, scheduled=False)

    def _left_out(self, at: At, scheduled: bool) -> bool:
        if not self._only_scheduled or scheduled or is_scheduled(at):
            return False
        self._draft.note(at, "not asked for, because others say schedule: true")
        return True

    def _around_slot(self, at: At, *, in_node: bool, scheduled: bool) -> tuple[Level, ...]:
        """A level at or above a slot: its own count multiplies."""
        entries = at.keys(KEYS)
        kind = need(entries, "type", at).text()
        scheduled = scheduled or ("schedule" in entries and entries["schedule"].yes())
        if kind == "slot" or "replicas" in entries:
            return () if self._left_out(at, scheduled) else self._slot(at, entries, kind, in_node)
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

    def _slot(self, at: At, entries: Mapping[str, At], kind: str, in_node: bool) -> tuple[Level, ...]:
        for child in children(entries):
            if _has_slot(child):
                raise child.refuse("a slot lies inside another slot; only one level of a resource has replicas")
        inner = tuple(self._totals(child, 1) for child in children(entries))
        count = self._count(entries)
        replicas = self._asked(entries["replicas"]) if "replicas" in entries else Count(1)
        if kind == "slot":
            if not inner:
                raise at.refuse("a slot needs 'with': what each slot holds")
            for key in ("requires", "unit"):
                if key in entries:
                    raise entries[key].refuse(f"a slot is no resource: write {key!r} on what it holds")
            label = entries["label"].text() if "label" in entries else ""
            self._note_attributes(entries)
            return spread_slot(times(replicas, count), inner, label=label, in_node=in_node)
        if not inner:
            return (self._level(entries, kind, times(replicas, count)),)
        if count != Count(1):
            raise entries["count"].refuse("give replicas (so many slots) or count (so many in one slot), not both")
        return (self._level(entries, kind, replicas, inside=inner, shared=True, abstract=True),)

    def _totals(self, at: At, parents: int, *, top: bool = False) -> Level:
        """A level below a slot: its count is a total, spread evenly over the `parents` vertices above."""
        entries = at.keys(KEYS)
        kind = need(entries, "type", at).text()
        count = shared_out(self._count(entries), parents)
        inside = tuple(self._totals(child, parents * count.min) for child in children(entries))
        return self._level(entries, kind, count, inside=inside, abstract=top and bool(inside))

    def _level(
        self,
        entries: Mapping[str, At],
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
            exclusive="exclusive" in entries and entries["exclusive"].yes(),
            abstract=abstract,
            requires=requires,
            inside=inside,
            label=entries["label"].text() if "label" in entries and entries["label"].value != "" else "",
        )

    def _count(self, entries: Mapping[str, At]) -> Count:
        return self._asked(entries["count"]) if "count" in entries else Count(1)

    def _asked(self, at: At) -> Count:
        asked = parse_count(at)
        if asked.note:
            self._draft.note(at, asked.note)
        return asked.count

    def _note_attributes(self, entries: Mapping[str, At]) -> None:
        """Attributes of a resource: the limits of time and place count for the job, the rest is reported."""
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


def children(entries: Mapping[str, At]) -> list[At]:
    """What stands under `with`: a list, or one resource."""
    if "with" not in entries:
        return []
    below = entries["with"]
    return [below] if isinstance(below.value, dict) else below.items()


def is_scheduled(at: At) -> bool:
    """True if the resource or anything in it says `schedule: true`."""
    entries = at.keys(KEYS)
    if "schedule" in entries and entries["schedule"].yes():
        return True
    return any(is_scheduled(child) for child in children(entries))


def _has_slot(at: At) -> bool:
    entries = at.keys(KEYS)
    if "replicas" in entries or ("type" in entries and entries["type"].value == "slot"):
        return True
    return any(_has_slot(child) for child in children(entries))
