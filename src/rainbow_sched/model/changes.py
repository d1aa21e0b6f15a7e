"""Small changes to a request; each is a value that can be applied, described and stored.

A path locates a level in a request: the index of the group, then of the level at each depth.
An empty path is the request itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.reasons import amount
from rainbow_sched.model.request import Count, Equals, Level, Request, Requirement, Runs, Scalar, Within
from rainbow_sched.model.versions import at_most

Path = tuple[int, ...]


class ChangeKind(enum.StrEnum):
    """Kind of a change."""

    COUNT = "count"
    DROP_LEVEL = "drop-level"
    VALUE = "value"
    BOUND = "bound"
    DROP_REQUIREMENT = "drop-requirement"
    DROP_EXCLUSIVE = "drop-exclusive"
    DROP_HOSTS = "drop-hosts"
    DROP_NOT_HOSTS = "drop-not-hosts"
    DROP_PROPERTIES = "drop-properties"


def at(request: Request, path: Path) -> Level:
    """Return the level at `path`."""
    level = request.groups[path[0]].levels[path[1]]
    for step in path[2:]:
        level = level.inside[step]
    return level


def level_types(request: Request, path: Path) -> str:
    """Return the types from the top to the level at `path`, such as `node/gpu`."""
    found = []
    levels = request.groups[path[0]].levels
    for position in path[1:]:
        found.append(levels[position].type)
        levels = levels[position].inside
    return "/".join(found)


def edit(request: Request, path: Path, change: Callable[[Level], Level | None]) -> Request:
    """Return `request` with the level at `path` replaced, or dropped if `change` returns None."""

    def inner(levels: tuple[Level, ...], steps: Path) -> tuple[Level, ...]:
        here = levels[steps[0]]
        after = change(here) if len(steps) == 1 else replace(here, inside=inner(here.inside, steps[1:]))
        return levels[: steps[0]] + ((after,) if after is not None else ()) + levels[steps[0] + 1 :]

    group = request.groups[path[0]]
    groups = list(request.groups)
    groups[path[0]] = replace(group, levels=inner(group.levels, path[1:]))
    return replace(request, groups=tuple(groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change that makes a request fit a cluster; matching has confirmed it."""

    kind: ChangeKind
    path: Path = ()
    requirement: int = 0  # index in the requirements of the level or the request
    term: int = 0  # index in the terms of that requirement
    to: Scalar | None = None  # the new count, value or bound
    text: str = ""
    then: Change | None = None  # a second change to the changed request, if one is not enough

    def apply(self, request: Request) -> Request:
        """Return `request` with this change applied."""
        changed = self._first(request)
        return self.then.apply(changed) if self.then else changed

    def _first(self, request: Request) -> Request:
        match self.kind:
            case ChangeKind.DROP_HOSTS:
                return replace(request, hosts=())
            case ChangeKind.DROP_NOT_HOSTS:
                return replace(request, not_hosts=())
            case ChangeKind.DROP_PROPERTIES:
                return replace(request, properties=())
            case ChangeKind.COUNT:
                return edit(request, self.path, lambda level: replace(level, count=_count(self.to)))
            case ChangeKind.DROP_LEVEL:
                return edit(request, self.path, lambda level: None)
            case ChangeKind.DROP_EXCLUSIVE:
                return edit(request, self.path, lambda level: replace(level, exclusive=False))
            case ChangeKind.VALUE | ChangeKind.BOUND | ChangeKind.DROP_REQUIREMENT:
                if not self.path:
                    return replace(request, requires=self._requires(request.requires))
                return edit(request, self.path, lambda level: replace(level, requires=self._requires(level.requires)))

    def _requires(self, before: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        requirement = before[self.requirement]
        if self.kind is ChangeKind.DROP_REQUIREMENT:
            after: tuple[Requirement, ...] = ()
        else:
            terms = list(requirement.terms)
            term = terms[self.term]
            if isinstance(term, Equals) and self.to is not None:
                terms[self.term] = replace(term, value=self.to)
            elif isinstance(term, Runs):
                terms[self.term] = replace(term, target=str(self.to))
            elif isinstance(term, Within):
                terms[self.term] = self._bound(term)
            after = (replace(requirement, terms=tuple(terms)),)
        return before[: self.requirement] + after + before[self.requirement + 1 :]

    def _bound(self, term: Within) -> Within:
        """Return the range widened to include `to`."""
        least, most = term.min, term.max
        if self.to is not None and least is not None and not at_most(least, self.to):
            least = self.to
        if self.to is not None and most is not None and not at_most(self.to, most):
            most = self.to
        return Within(term.field, least, most)

    def sentence(self) -> str:
        """Return the change as text for users."""
        return f"{self.text} and {self.then.sentence()}" if self.then else self.text

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return {
            "change": self.kind.value,
            "path": list(self.path),
            "requirement": self.requirement,
            "term": self.term,
            "to": self.to,
            "text": self.text,
            "then": self.then.to_json() if self.then else None,
        }


def _count(to: Scalar | None) -> Count:
    if not isinstance(to, int) or isinstance(to, bool):
        raise Invalid(f"a count must be a whole number, not {to!r}")
    return Count(to)


def format_count(level: Level, path: Path, to: int) -> str:
    """Return `-N 2` for nodes at the top, `-n 2` for slots inside nodes, `gpu 2 instead of 4` elsewhere."""
    if level.type == "node" and len(path) == 2:
        return f"-n {to}" if level.shared and not level.exclusive else f"-N {to}"
    return f"{level.type} {amount(to, level.unit)} instead of {amount(level.count.min, level.unit)}"


def format_requirement(requirement: Requirement) -> str:
    """Return a requirement as text, such as `software name = lammps, version >= 2024`."""
    parts = []
    for term in requirement.terms:
        if isinstance(term, Equals):
            parts.append(f"{term.field} = {term.value}")
        elif isinstance(term, Runs):
            parts.append(f"{term.field} runs {term.target}")
        elif term.min is None:
            parts.append(f"{term.field} <= {term.max}")
        elif term.max is None:
            parts.append(f"{term.field} >= {term.min}")
        else:
            parts.append(f"{term.min} <= {term.field} <= {term.max}")
    if requirement.below:
        parts.append("with " + ", ".join(f"({format_requirement(inner)})" for inner in requirement.below))
    return f"{requirement.subsystem} {', '.join(parts)}"
