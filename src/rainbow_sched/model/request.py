"""What a job asks for: the one normal form that every jobspec dialect becomes.

A `Request` is a list of groups. All groups must fit on one cluster together, and nothing
is ever counted twice. A group is a tree of levels that is found inside the cluster:

- A level with levels `inside` stands for vertices of its type that *contain* those.
  `count` says how many, for each vertex of the level above (counts multiply down).
- `shared=False`: the `count` vertices are distinct within one vertex of the level above.
  `shared=True`: the level is a slot's host: `count` slots, each whole inside one vertex of
  this type, and several slots may lie in the same vertex. A host is never two vertices.
- A level with nothing inside takes `count` units of its type for itself: the sizes of the
  vertices are summed (a `core` vertex of size 48 gives 48; memory is counted in its unit,
  see `model/quantities.py`). Taken units belong to one slot only. A leaf whose vertices
  have things inside (`node`, nothing below) takes whole vertices with all that they contain.
- `exclusive`: nobody else, neither another slot nor another job, uses anything inside the
  chosen vertices.
- `requires` holds at each chosen vertex of the level, whether above or below the slot. For
  a leaf it holds at the vertices whose units are taken.
- A type that a graph lacks altogether and that carries no `requires` is an abstraction: it
  is skipped, and the vertex above (at the top: the cluster's root) stands for it. That holds
  for levels with something inside and `abstract=True` (set by dialects that allow it).

Counts may be ranges: `Count(2, 8)` fits when the least fits; `Match` tells how many do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rainbow_sched.model.errors import Invalid

Scalar: TypeAlias = str | int | float | bool
MAX_COUNT = 2**40
MAX_LEVELS = 1_000
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Count:
    """How many: at least `min`; up to `max` if more are there (None: no upper bound)."""

    min: int = 1
    max: int | None = -1  # -1 in the constructor means "same as min"

    def __post_init__(self) -> None:
        if self.max == -1:
            object.__setattr__(self, "max", self.min)
        if not 1 <= self.min <= MAX_COUNT:
            raise Invalid(f"a count is a whole number from 1 to {MAX_COUNT}, not {self.min}")
        if self.max is not None and not self.min <= self.max <= MAX_COUNT:
            raise Invalid(f"a count's max {self.max} must be at least its min {self.min} and at most {MAX_COUNT}")

    @property
    def exact(self) -> bool:
        """True when it is one number, not a range."""
        return self.max == self.min


@dataclass(frozen=True, slots=True)
class Equals:
    """The field has this value; "5" equals 5, as graphs in the wild hold both."""

    field: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Within:
    """The field lies in an inclusive range: numbers as numbers, all else in version order."""

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
            raise Invalid("a requirement names its subsystem")
        if not self.terms and not self.below:
            raise Invalid(f"a requirement on {self.subsystem!r} says nothing: give a field with match, min or max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a group's tree; see the module's text for what each field means."""

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
            raise Invalid(f"{self.type}: a slot's host needs something inside; without it, it is taken itself")

    def walk(self) -> Iterator[Level]:
        """This level and all inside it, from the top."""
        yield self
        for level in self.inside:
            yield from level.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Resources that one part of the job asks for; all groups of a request fit together."""

    levels: tuple[Level, ...]
    name: str = ""

    def __post_init__(self) -> None:
        if not self.levels:
            raise Invalid("a group asks for at least one resource")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What runs: an argv without a shell, or a script with its interpreter line; per slot or in all."""

    command: tuple[str, ...] = ()
    script: str = ""
    group: str = ""
    per_slot: int = 1
    total: int | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.script):
            raise Invalid("a task has a command or a script, one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job's demand in normal form."""

    groups: tuple[Group, ...]
    tasks: tuple[Task, ...] = ()
    requires: tuple[Requirement, ...] = ()  # of the cluster as a whole (its root)
    hosts: tuple[str, ...] = ()  # only vertices with these names may host (RFC 31 hostlist)
    not_hosts: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()  # every host carries these; "^p" means: does not carry p (RFC 31)
    duration: float | None = None  # seconds; None: not said
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    image: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # attributes.parameter, for policies
    options: Mapping[str, str] = field(default_factory=dict)  # site names: partition, account, qos ...
    ignored: tuple[str, ...] = ()  # what the dialect read and does not honour, one sentence each

    def __post_init__(self) -> None:
        if not self.groups:
            raise Invalid("a request asks for at least one resource")
        levels, depth = 0, 0
        stack = [(level, 1) for group in self.groups for level in group.levels]
        while stack:
            level, at = stack.pop()
            levels, depth = levels + 1, max(depth, at)
            stack.extend((child, at + 1) for child in level.inside)
        if levels > MAX_LEVELS or depth > MAX_DEPTH:
            raise Invalid(f"a request has at most {MAX_LEVELS} levels and a depth of {MAX_DEPTH}")
        if self.duration is not None and not 0 < self.duration < 10**9:
            raise Invalid(f"a duration is a positive number of seconds, not {self.duration}")

    def walk(self) -> Iterator[Level]:
        """Every level of every group, from the top."""
        for group in self.groups:
            for level in group.levels:
                yield from level.walk()
