"""A job's resource request, in the normal form that every jobspec dialect is converted to.

A `Request` is a list of groups. All groups must fit on one cluster together, and no resource
is counted twice. A group is a tree of levels:

- A level with levels `inside` selects vertices of its type that *contain* those.
  `count` is the number per vertex of the level above (counts multiply down the tree).
- `shared=False`: the `count` vertices are distinct within one vertex of the level above.
  `shared=True`: the level is a slot's host: `count` slots, each inside one vertex of
  this type, and several slots may share a vertex. A slot never spans two hosts.
- A level with nothing inside (a leaf) takes `count` units of its type: the sizes of the
  vertices are summed (a `core` vertex of size 48 gives 48; memory is counted in its unit,
  see `model/quantities.py`). Taken units belong to one slot. A leaf whose vertices
  have children (`node`, nothing below) takes whole vertices with everything inside.
- `exclusive`: no other slot or job uses anything inside the chosen vertices.
- `requires` must hold at each chosen vertex of the level. For a leaf it must hold at the
  vertices whose units are taken.
- A level with something inside, `abstract=True` (set by dialects that allow it) and no
  `requires` is skipped if the graph has no vertex of its type; the vertex above (at the top:
  the cluster's root) takes its place.

Counts may be ranges: `Count(2, 8)` fits when 2 fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rainbow_sched.model.errors import Invalid

Scalar: TypeAlias = str | int | float | bool
MAX_COUNT = 2**40  # bounds the count of one level
MAX_LEVELS = 1_000  # of all groups; bounds the time to match a request
MAX_DEPTH = 32  # of nested levels; bounds the recursion of what walks a request


@dataclass(frozen=True, slots=True)
class Count:
    """A count or a range: at least `min`, up to `max` if available (None: no upper bound)."""

    min: int = 1
    max: int | None = -1  # -1: the same as `min`

    def __post_init__(self) -> None:
        if self.max == -1:
            object.__setattr__(self, "max", self.min)
        if not 1 <= self.min <= MAX_COUNT:
            raise Invalid(f"a count must be a whole number from 1 to {MAX_COUNT}, not {self.min}")
        if self.max is not None and not self.min <= self.max <= MAX_COUNT:
            raise Invalid(f"a count's max {self.max} must be at least its min {self.min} and at most {MAX_COUNT}")

    @property
    def exact(self) -> bool:
        """Return True if the count is one number, not a range."""
        return self.max == self.min


@dataclass(frozen=True, slots=True)
class Equals:
    """The field has this value; "5" equals 5, as real graphs hold both."""

    field: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Within:
    """The field is in an inclusive range; numbers compare as numbers, everything else as versions."""

    field: str
    min: Scalar | None = None
    max: Scalar | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise Invalid(f"a range on {self.field!r} needs min or max")


@dataclass(frozen=True, slots=True)
class Runs:
    """The field names a microarchitecture that can run code built for `target` (itself or a descendant)."""

    field: str
    target: str


Term: TypeAlias = Equals | Within | Runs


@dataclass(frozen=True, slots=True)
class Requirement:
    """One vertex of a subsystem meets all `terms` and has below it, for each of `below`, one that meets that."""

    subsystem: str
    terms: tuple[Term, ...] = ()
    below: tuple[Requirement, ...] = ()

    def __post_init__(self) -> None:
        if not self.subsystem:
            raise Invalid("a requirement must name its subsystem")
        if not self.terms and not self.below:
            raise Invalid(f"a requirement on {self.subsystem!r} is empty: give a field with match, min or max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a group's tree; the module docstring defines each field."""

    type: str
    count: Count = Count()
    unit: str = ""  # of a leaf's count; empty: the graph's own unit
    shared: bool = False
    exclusive: bool = False
    abstract: bool = False
    requires: tuple[Requirement, ...] = ()
    inside: tuple[Level, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if not self.type:
            raise Invalid("a resource needs a type")
        if self.shared and not self.inside:
            raise Invalid(f"{self.type}: a slot's host needs something inside")

    def walk(self) -> Iterator[Level]:
        """Iterate over this level and all levels inside, from the top."""
        return (level for level, _ in self.walk_counted())

    def walk_counted(self, slots: int = 1) -> Iterator[tuple[Level, int]]:
        """Do the same, each with how many of it are needed at least in all `slots` that contain this level."""
        count = slots * self.count.min
        yield self, count
        for level in self.inside:
            yield from level.walk_counted(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Resources of one part of the job; all groups of a request must fit together."""

    levels: tuple[Level, ...]
    name: str = ""

    def __post_init__(self) -> None:
        if not self.levels:
            raise Invalid("a group must ask for at least one resource")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A command (argv, no shell) or a script with its interpreter line, started per slot or `total` times."""

    command: tuple[str, ...] = ()
    script: str = ""
    group: str = ""
    per_slot: int = 1
    total: int | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.script):
            raise Invalid("a task must have either a command or a script")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job's resource request in normal form."""

    groups: tuple[Group, ...]
    tasks: tuple[Task, ...] = ()
    requires: tuple[Requirement, ...] = ()  # of the cluster as a whole (its root)
    hosts: tuple[str, ...] = ()  # names of the only vertices that may be used (RFC 31 hostlist)
    not_hosts: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()  # every host has these; "^p": does not have p (RFC 31)
    duration: float | None = None  # seconds; None: not given
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    image: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # attributes.parameter, for policies
    options: Mapping[str, str] = field(default_factory=dict)  # site names: partition, account, qos ...
    ignored: tuple[str, ...] = ()  # directives that are not honoured, one sentence each

    def __post_init__(self) -> None:
        if not self.groups:
            raise Invalid("a request must ask for at least one resource")
        levels, depth = 0, 0
        stack = [(level, 1) for group in self.groups for level in group.levels]
        while stack:
            level, at = stack.pop()
            levels, depth = levels + 1, max(depth, at)
            stack.extend((child, at + 1) for child in level.inside)
        if levels > MAX_LEVELS or depth > MAX_DEPTH:
            raise Invalid(f"a request has at most {MAX_LEVELS} levels and a depth of {MAX_DEPTH}")
        if self.duration is not None and not 0 < self.duration < 10**9:
            raise Invalid(f"a duration must be a positive number of seconds below 10^9, not {self.duration}")

    def walk(self) -> Iterator[Level]:
        """Iterate over all levels of all groups, from the top."""
        return (level for level, _ in self.walk_counted())

    def walk_counted(self) -> Iterator[tuple[Level, int]]:
        """Do the same, each with how many of it the request needs at least."""
        for group in self.groups:
            for level in group.levels:
                yield from level.walk_counted()
