"""Collect the parts of a request while a dialect reads a jobspec, with notes on unsupported parts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.jobspecs.dialects.requirements import require_at_nodes
from rainbow_sched.jobspecs.reading.counts import parse_count
from rainbow_sched.jobspecs.reading.fields import Entry, located, required
from rainbow_sched.model.errors import TooLarge
from rainbow_sched.model.quantities import parse_duration
from rainbow_sched.model.request import Count, Group, Request, Requirement, Scalar, Task

MAX_NOTES = 100  # on parts that are not supported; bounds the size of a request
MAX_TASKS = 256  # bounds the size of a request
MAX_REQUIREMENTS = 10_000  # over all levels; bounds the size of a request
_TOO_MANY_REQUIREMENTS = f"a request has at most {MAX_REQUIREMENTS} requirements"


@dataclass
class RequestDraft:
    """The parts of one `Request`, by the names of its fields; `finish` builds it."""

    groups: list[Group] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    requires: tuple[Requirement, ...] = ()
    hosts: tuple[str, ...] = ()
    not_hosts: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    duration: float | None = None
    name: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    image: str = ""
    parameters: dict[str, Scalar] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def note(self, where: Entry | str, sentence: str) -> None:
        """Report a part that is not supported; after MAX_NOTES, report once that there are more."""
        place = where.path if isinstance(where, Entry) else where
        if len(self.ignored) < MAX_NOTES:
            self.ignored.append(f"{place}: {sentence}" if place else sentence)
        elif len(self.ignored) == MAX_NOTES:
            self.ignored.append("and more that is not honoured")

    def require(self, needed: Mapping[str, Sequence[Requirement]]) -> None:
        """Add requirements, by group name, to the nodes of the groups; the empty name means all groups."""
        extra = [(*needed.get("", ()), *(needed.get(group.name, ()) if group.name else ())) for group in self.groups]
        if sum(map(len, extra)) > MAX_REQUIREMENTS:
            raise TooLarge(_TOO_MANY_REQUIREMENTS)
        self.groups = [
            replace(group, levels=tuple(require_at_nodes(level, more) for level in group.levels)) if more else group
            for group, more in zip(self.groups, extra, strict=True)
        ]

    def finish(self) -> Request:
        """Build and check the request; raise TooLarge if it exceeds a limit."""
        if len(self.tasks) > MAX_TASKS:
            raise TooLarge(f"a jobspec has at most {MAX_TASKS} tasks")
        check_requirements(self.groups)
        parts = {"groups": tuple(self.groups), "tasks": tuple(self.tasks), "ignored": tuple(self.ignored)}
        return Request(**vars(self) | parts)

    def read_count(self, entry: Entry) -> Count:
        count, note = parse_count(entry)
        if note:
            self.note(entry, note)
        return count

    def read_attribute(self, key: str, entry: Entry) -> bool:
        """Read a duration, environment or working directory; return False for another key."""
        if key == "duration":
            self.read_duration(entry)
        elif key == "environment":
            self.read_environment(entry)
        elif key == "cwd":
            self.cwd = entry.text()
        else:
            return False
        return True

    def read_environment(self, entry: Entry) -> None:
        """Read variables to set; unsetting a variable (a null value) is reported."""
        for name, value in entry.keys().items():
            if not name or "=" in name:
                raise value.error("the name of a variable must be text without '='")
            if value.value is None:
                self.note(value, "unsetting a variable is not honoured")
            else:
                self.environment[name] = _as_text(value.scalar())

    def read_duration(self, entry: Entry) -> None:
        """Read seconds or text such as `30m`; zero means no limit."""
        if isinstance(entry.value, str):
            with located(entry.path):
                self.duration = parse_duration(entry.value)
        else:
            seconds = entry.number()
            if seconds >= 10**9:
                raise entry.error(f"{seconds:g} seconds are too long for a duration")
            self.duration = seconds or None

    def read_parameters(self, entry: Entry) -> None:
        """Read the variables for selection policies."""
        self.parameters.update((name, value.scalar()) for name, value in entry.keys().items())


def check_requirements(groups: Iterable[Group]) -> None:
    """Raise TooLarge if the groups have more than MAX_REQUIREMENTS requirements."""
    if sum(len(level.requires) for group in groups for top in group.levels for level in top.walk()) > MAX_REQUIREMENTS:
        raise TooLarge(_TOO_MANY_REQUIREMENTS)


def read_command(entry: Entry) -> Task:
    """Read a command: a list of arguments, text to split as a shell does, or a script that begins with `#!`."""
    if isinstance(entry.value, str):
        text = entry.text()
        if text.startswith("#!"):
            return Task(script=text)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise entry.error(f"the command cannot be split into words: {error}") from None
    else:
        words = [item.text(may_be_empty=True) for item in entry.nonempty_items()]
    if not words or not words[0]:
        raise entry.error("the command is empty")
    return Task(command=tuple(words))


def read_task_count(entry: Entry, draft: RequestDraft) -> tuple[int, int | None]:
    """Return (per slot, total) of a task's `count`, which has exactly one of them."""
    entries = entry.keys(("per_slot", "per_resource", "total"))
    if len(entries) != 1:
        raise entry.error("the count of a task must have exactly one of per_slot, per_resource and total")
    if "per_resource" in entries:
        per_resource = entries["per_resource"]
        inner = per_resource.keys(("type", "count"))
        required(inner, "type", per_resource).text()
        required(inner, "count", per_resource).integer()
        draft.note(per_resource, "tasks per resource are not honoured; one task runs in each slot")
        return 1, None
    if "total" in entries:
        return 1, entries["total"].integer()
    return entries["per_slot"].integer(), None


def _as_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
