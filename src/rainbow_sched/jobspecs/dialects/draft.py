"""A request while a dialect is still reading: what was said so far, and what will not be honoured."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.jobspecs.dialects.requirements import everywhere
from rainbow_sched.jobspecs.reading.durations import parse_duration
from rainbow_sched.jobspecs.reading.fields import At
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.request import Group, Request, Requirement, Scalar, Task

MAX_NOTES = 100
MAX_TASKS = 256
MAX_REQUIREMENTS = 10_000  # counted at each level that carries them
_TOO_MANY = f"a request has at most {MAX_REQUIREMENTS} requirements"


@dataclass(slots=True)
class Draft:
    """Collects the parts of one `Request`; `finish` makes it."""

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
    notes: list[str] = field(default_factory=list)

    def note(self, at: At, sentence: str) -> None:
        """Report something that was read and is not honoured."""
        add_note(self.notes, f"{at.path}: {sentence}" if at.path else sentence)

    def require(self, needed: Mapping[str, Sequence[Requirement]]) -> None:
        """Add requirements to the nodes of the groups they are for; those under the empty name are for all."""
        extra = [(*needed.get("", ()), *(needed.get(group.name, ()) if group.name else ())) for group in self.groups]
        if sum(map(len, extra)) > MAX_REQUIREMENTS:
            raise TooLarge(_TOO_MANY)
        self.groups = [
            replace(group, levels=tuple(everywhere(level, more) for level in group.levels)) if more else group
            for group, more in zip(self.groups, extra, strict=True)
        ]

    def finish(self) -> Request:
        """The request, checked by its own constructor and held against what a short text could blow up."""
        if len(self.tasks) > MAX_TASKS:
            raise TooLarge(f"a jobspec runs at most {MAX_TASKS} tasks")
        check_requirements(self.groups)
        return Request(
            groups=tuple(self.groups),
            tasks=tuple(self.tasks),
            requires=self.requires,
            hosts=self.hosts,
            not_hosts=self.not_hosts,
            properties=self.properties,
            duration=self.duration,
            name=self.name,
            environment=self.environment,
            cwd=self.cwd,
            image=self.image,
            parameters=self.parameters,
            options=self.options,
            ignored=tuple(self.notes),
        )

    def read_environment(self, at: At) -> None:
        """Variables to set; unsetting one (a null value) is reported."""
        for name, value in at.keys().items():
            if not name or "=" in name:
                raise value.refuse("a variable's name is text without '='")
            if value.value is None:
                self.note(value, "unsetting a variable is not honoured")
            else:
                self.environment[name] = _as_text(value.scalar())

    def read_duration(self, at: At) -> None:
        """Seconds, or text such as `30m`; zero means no limit."""
        if isinstance(at.value, str):
            try:
                self.duration = parse_duration(at.value)
            except Invalid as error:
                raise at.refuse(error.what) from None
        else:
            seconds = at.number()
            if seconds >= 10**9:
                raise at.refuse(f"{seconds:g} seconds are too long for a duration")
            self.duration = seconds or None

    def read_parameters(self, at: At) -> None:
        """Variables for selection policies."""
        for name, value in at.keys().items():
            self.parameters[name] = value.scalar()


def add_note(notes: list[str], sentence: str) -> None:
    """Add a sentence; after very many, one that says so."""
    if len(notes) < MAX_NOTES:
        notes.append(sentence)
    elif len(notes) == MAX_NOTES:
        notes.append("and more that is not honoured")


def check_requirements(groups: Iterable[Group]) -> None:
    """Refuse more requirements than a matcher should look at."""
    if sum(len(level.requires) for group in groups for top in group.levels for level in top.walk()) > MAX_REQUIREMENTS:
        raise TooLarge(_TOO_MANY)


def read_command(at: At) -> Task:
    """A list is an argv; text is split like a shell would, or is a script if it begins with `#!`."""
    if isinstance(at.value, str):
        text = at.text()
        if text.startswith("#!"):
            return Task(script=text)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise at.refuse(f"the command cannot be split into words: {error}") from None
    else:
        words = [_word(item) for item in at.one_or_more()]
    if not words or not words[0]:
        raise at.refuse("the command is empty")
    return Task(command=tuple(words))


def _word(at: At) -> str:
    """One argument; an empty one is fine."""
    return "" if at.value == "" else at.text()


def _as_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
