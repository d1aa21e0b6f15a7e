"""Typed reasons why a request does not fit a cluster.

Each reason holds the requested and the available values, whether it holds always or only now, and gives one sentence.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from rainbow_sched.model.quantities import factor, human_bytes

MAX_LISTED_GROUPS = 4  # groups that a sentence lists one by one


class When(enum.StrEnum):
    """Whether a reason holds for the whole graph, or only for the free resources."""

    NEVER = "never"
    NOT_NOW = "not now"


@dataclass(frozen=True, slots=True)
class Where:
    """A few names of vertices, and the number of further ones."""

    names: tuple[str, ...] = ()
    more: int = 0

    def sentence(self) -> str:
        """Return text such as `perl-n01, perl-n02 and 30 more`."""
        listed = ", ".join(self.names)
        if not self.more:
            return listed
        return f"{listed} and {self.more} more" if listed else f"{self.more} vertices"


def amount(number: int, unit: str) -> str:
    """Return text such as `4`, `16GiB` or `4 ports`."""
    scale = factor(unit) if unit else None
    if scale is not None:
        return human_bytes(number * scale)
    return f"{number} {unit}" if unit else str(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason(ABC):
    """Why a request does not fit; `when` says whether the reason holds always or only now."""

    tag: ClassVar[str]
    when: When = When.NEVER

    @abstractmethod
    def sentence(self) -> str:
        """Return one sentence for users."""

    def to_json(self) -> dict[str, Any]:
        """Return the reason as JSON values: its tag, what it says, and when it holds."""
        values = asdict(self)
        when = values.pop("when")
        return {"reason": self.tag, **values, "when": when}


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReason(Reason):
    """A reason in one level of the request."""

    group: int  # -1: of the request as a whole
    level: str  # the path of types from the top, "node/gpu"
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchType(LevelReason):
    """The cluster has no vertex of this type."""

    tag: ClassVar[str] = "no-such-type"
    known: tuple[str, ...] = ()

    def sentence(self) -> str:
        return f"{self.type}: there is none in this cluster (it has {', '.join(self.known)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFew(LevelReason):
    """Too little of a resource, inside one vertex of the level above or in the whole cluster."""

    tag: ClassVar[str] = "too-few"
    asked: int
    best: int
    unit: str = ""
    inside: str = ""  # the type of the level above; empty: the whole cluster
    where: Where = Where()
    exclusive: bool = False
    blocked: str = ""  # why the rest is not free: "3 down or drained, 40 in use"

    def sentence(self) -> str:
        place = f" in one {self.inside}" if self.inside else ""
        alone = " (exclusive)" if self.exclusive else ""
        at_most = "at most" if self.when is When.NEVER else "free now"
        found = f" ({self.inside or 'at'} {self.where.sentence()})" if self.where.names else ""
        why = f"; {self.blocked}" if self.blocked else ""
        best = amount(self.best, self.unit)
        return f"{self.type}{alone}: {amount(self.asked, self.unit)} needed{place}, {best} {at_most}{found}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementUnmet(LevelReason):
    """No vertex of the level meets a requirement; `found` holds the existing values."""

    tag: ClassVar[str] = "requirement-unmet"
    requirement: str
    found: tuple[str, ...] = ()
    more: int = 0
    has_subsystem: bool = True
    where: Where = Where()

    def sentence(self) -> str:
        requirement = f"{self.requirement} on {self.type}"
        if not self.has_subsystem:
            return f"{requirement}: the cluster has no such subsystem"
        if not self.found:
            return f"{requirement}: found nothing"
        return f"{requirement}: found {', '.join(self.found)}{f' and {self.more} more' if self.more else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFewMeet(LevelReason):
    """Too few vertices of a level meet its requirements and have room for the levels inside."""

    tag: ClassVar[str] = "too-few-meet"
    asked: int
    best: int
    inside: str = ""
    exclusive: bool = False
    blocked: str = ""
    slots: bool = False  # `asked` and `best` count slots, of which one vertex may hold several

    def sentence(self) -> str:
        place = f" in one {self.inside}" if self.inside else ""
        alone = " (exclusive)" if self.exclusive else ""
        do = "do" if self.when is When.NEVER else "do now"
        why = f"; {self.blocked}" if self.blocked else ""
        if self.slots:
            fit = "fit" if self.when is When.NEVER else "fit now"
            return f"slots{place}: {self.asked} needed, each inside one {self.type}, {self.best} {fit}{why}"
        return f"{self.type}{alone}: {self.asked} needed{place} that hold everything requested, {self.best} {do}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAllowed(Reason):
    """The request's own hosts or properties leave too few vertices."""

    tag: ClassVar[str] = "not-allowed"
    what: str  # "hosts", "not_hosts" or "properties"
    asked: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def sentence(self) -> str:
        wanted = ", ".join(self.asked)
        if self.missing:
            return f"{self.what} {wanted}: this cluster has no {', '.join(self.missing)}"
        return f"{self.what} {wanted}: the remaining resources are not enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class Competing(Reason):
    """Each part fits alone, but several parts need the same resources."""

    tag: ClassVar[str] = "competing"
    groups: tuple[int, ...]
    types: tuple[str, ...] = ()

    def sentence(self) -> str:
        parts = " and ".join(str(group + 1) for group in self.groups[:MAX_LISTED_GROUPS])
        if len(self.groups) > MAX_LISTED_GROUPS:
            parts = f"1 to {len(self.groups)}"
        over = f" over {', '.join(self.types)}" if self.types else ""
        if len(self.groups) < 2:
            return f"each part of group {parts} fits alone, but not all together: they compete{over}"
        return f"groups {parts} fit alone, but not together: they compete{over}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Reason):
    """An exact answer would exceed the step limit."""

    tag: ClassVar[str] = "undecided"
    steps: int

    def sentence(self) -> str:
        return f"not decided: the parts compete in too many ways (gave up after {self.steps} steps)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesNotSought(Reason):
    """Why no change is suggested; always the last reason."""

    tag: ClassVar[str] = "changes-not-sought"
    levels: int

    def sentence(self) -> str:
        return f"no suggestions: the request ({self.levels} levels) is too large to try every change"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedHosts(LevelReason):
    """Only some vertices inside a host meet a requirement, and the manager cannot be told which ones to use."""

    tag: ClassVar[str] = "mixed-hosts"
    requirement: str
    subsystem: str = ""  # empty: the request's own hosts or properties
    inside: str = ""  # the type of the hosts; empty: the vertices are not in a host
    where: Where = Where()

    def sentence(self) -> str:
        place = f"in {self.inside} {self.where.sentence()}" if self.inside else "in this cluster"
        remedy = f"require it of the {self.inside}" if self.inside else f"require it of every {self.type}"
        return (
            f"{self.requirement} on {self.type}: {place} some meet it and others do not, "
            f"and the cluster's manager cannot be told which {self.type} to use; {remedy}, or drop it"
        )


@dataclass(frozen=True, slots=True)
class Met:
    """A requirement and the vertices that meet it."""

    type: str
    requirement: str
    where: Where

    def sentence(self) -> str:
        """Return one sentence for users."""
        return f"{self.requirement} on {self.type}: {self.where.sentence()}"

    def to_json(self) -> dict[str, Any]:
        """Return the value as JSON values."""
        return asdict(self)
