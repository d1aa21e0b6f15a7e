"""Parse the options of script directives and combine them into a Request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.jobspecs.dialects.constraints import parse_hosts
from rainbow_sched.jobspecs.dialects.draft import add_note
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS
from rainbow_sched.jobspecs.reading.durations import parse_duration
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.quantities import parse_bytes
from rainbow_sched.model.request import Request

_NAMES = re.compile(r"[-^]?[A-Za-z0-9][\w.+-]*(?:,[-^]?[A-Za-z0-9][\w.+-]*)*")  # properties that all hold, or do not
_WHOLE = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Grammar:
    """The letters of options, and the names that take no value."""

    letters: Mapping[str, str]
    switches: frozenset[str]
    names: frozenset[str]  # every known long name


@dataclass(frozen=True, slots=True)
class Option:
    """An option; `known` is True if the grammar has it."""

    name: str
    value: str
    known: bool

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def read_options(words: Sequence[str], grammar: Grammar, where: str) -> Iterator[Option]:
    """Yield the options of `words`: `-N4`, `-N 4`, `--nodes=4`, `--nodes 4`, and letters without values."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.startswith("--") and len(word) > 2:
            name, separator, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1 and not word.startswith("--"):
            name, value = grammar.letters.get(word[1], word[1]), word[2:]
            separator = value
            if value and name in grammar.switches:
                raise Invalid(f"-{word[1]} takes no value", where=where)
        else:
            raise Invalid(f"{word[:40]!r} is not an option", where=where)
        known = name in grammar.names
        follows = index < len(words) and not words[index].startswith("-")
        if not separator and name not in grammar.switches and follows:
            value = words[index]
            index += 1
        elif not separator and known and name not in grammar.switches:
            raise Invalid(f"--{name} needs a value", where=where)
        yield Option(name, value, known)


@dataclass(slots=True)
class ScriptOptions:
    """Collects the options of a script; `request` builds the Request."""

    script: str
    numbers: dict[str, int] = field(default_factory=dict)  # nodes, tasks, cores, gpus ...
    texts: dict[str, str] = field(default_factory=dict)  # memory, name, cwd
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    properties: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    not_hosts: tuple[str, ...] = ()
    duration: float | None = None
    exclusive: bool = False
    whole_nodes: bool = False  # Flux: -N without -n means exclusive nodes
    notes: list[str] = field(default_factory=list)

    def note(self, where: str, sentence: str) -> None:
        """Report an option that is not supported."""
        add_note(self.notes, f"{where}: {sentence}")

    def add_flux(self, option: Option, where: str) -> None:
        """Add an option of `flux batch` or Rainbow."""
        name, value = option.name, option.value
        self.whole_nodes = True
        if name in _FLUX_NUMBERS:
            self.numbers[_FLUX_NUMBERS[name]] = self._whole(option, where)
        elif name in ("time-limit", "time"):
            self.duration = _duration(value, "s", where)
        elif name == "env":
            self._env(value, option, where)
        elif name == "cwd":
            self.texts["cwd"] = value
        elif name == "requires" and _NAMES.fullmatch(value):
            self.properties += tuple(word.replace("-", "^", 1) if word[0] == "-" else word for word in value.split(","))
        else:
            self._add_common(option, where)

    def add_sbatch(self, option: Option, where: str) -> None:
        """Add an option of `sbatch`."""
        name, value = option.name, option.value
        if name in _SBATCH_NUMBERS:
            self.numbers[_SBATCH_NUMBERS[name]] = self._whole(option, where)
        elif name == "time":
            self.duration = _duration(value, "m", where)
        elif name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
            self._gpus(option, where)
        elif name == "chdir":
            self.texts["cwd"] = value
        elif name == "export":
            for part in value.split(","):
                self._env(part, option, where)
        elif name == "nodelist":
            self.hosts = _hosts(value, where)
        elif name == "exclude":
            self.not_hosts = _hosts(value, where)
        else:
            self._add_common(option, where)

    def request(self) -> Request:
        """Return the request for all options."""
        numbers = dict(self.numbers)
        per_node = numbers.pop("tasks_per_node", 1)
        total_gpus = numbers.pop("gpus", 0)
        if numbers.get("nodes") is None and (
            numbers.get("gpus_per_node") or total_gpus or self.exclusive or per_node > 1
        ):
            numbers["nodes"] = -(-numbers["tasks"] // per_node) if "tasks" in numbers and per_node > 1 else 1
            self.notes.append(f"no number of nodes is given: {numbers['nodes']} assumed")
        nodes = numbers.get("nodes")
        if nodes is not None:
            if "tasks" not in numbers and not self.whole_nodes:
                numbers["tasks"] = nodes * per_node
            if total_gpus:
                numbers["gpus_per_node"] = -(-total_gpus // nodes)
        flags = Flags(
            nodes=nodes,
            tasks=numbers.get("tasks"),
            cores_per_task=numbers.get("cores", 1),
            gpus_per_task=numbers.get("gpus_per_task", 0),
            gpus_per_node=numbers.get("gpus_per_node", 0),
            memory=self.texts.get("memory", ""),
            memory_per_core=self.texts.get("memory_per_core", ""),
            exclusive=self.exclusive,
            name=self.texts.get("name", ""),
            script=self.script,
            cwd=self.texts.get("cwd", ""),
            environment=self.environment,
            options=self.options,
            ignored=tuple(self.notes),
        )
        return replace(
            request_from_flags(flags),
            duration=self.duration,
            properties=self.properties,
            hosts=self.hosts,
            not_hosts=self.not_hosts,
        )

    def _add_common(self, option: Option, where: str) -> None:
        name, value = option.name, option.value
        if name == "job-name":
            self.texts["name"] = value
        elif name == "exclusive":
            self.exclusive = True
            if value:
                self.note(where, f"{option} is read as --exclusive")
        elif name in ("mem", "mem-per-cpu"):
            if value.rstrip("KMGTkmgt") == "0":
                self.note(where, f"{option} (all memory of the node) is not honoured")
            else:
                _need_bytes(option, where)
                self.texts["memory" if name == "mem" else "memory_per_core"] = value
        elif name in MANAGER_OPTIONS:
            self.options[name] = value
        else:
            self.note(where, f"{option} is not honoured")

    def _whole(self, option: Option, where: str) -> int:
        low, dash, _ = option.value.partition("-")
        if not _WHOLE.fullmatch(low):
            raise Invalid(f"{option} must be a whole number of at least 1", where=where)
        if dash:
            self.note(where, f"of {option} only the least, {low}, is considered")
        return int(low)

    def _gpus(self, option: Option, where: str) -> None:
        """Add gpus: `gpu:2` or `gpu:a100:4` of --gres, `4` or `a100:4` of the other options."""
        parts = option.value.split(":")
        if option.name == "gres":
            if parts[0] != "gpu" or "," in option.value:
                self.note(where, f"{option} is not honoured")
                return
            parts = parts[1:]
        number = parts.pop() if parts and parts[-1].isdecimal() else "1"
        if parts:
            self.note(where, f"the kind {':'.join(parts)} of {option} is not checked")
        if not _WHOLE.fullmatch(number):
            raise Invalid(f"{option} must be a number of gpus", where=where)
        key = {"gpus": "gpus", "gpus-per-task": "gpus_per_task"}.get(option.name, "gpus_per_node")
        self.numbers[key] = int(number)

    def _env(self, text: str, option: Option, where: str) -> None:
        name, separator, value = text.partition("=")
        if separator and name:
            self.environment[name] = value
        elif name not in ("ALL", ""):
            self.note(where, f"{name} of {option} is not honoured; write NAME=VALUE")


_FLUX_NUMBERS = {
    "nodes": "nodes",
    "ntasks": "tasks",
    "nslots": "tasks",
    "cores-per-task": "cores",
    "cores-per-slot": "cores",
    "gpus-per-task": "gpus_per_task",
    "gpus-per-slot": "gpus_per_task",
    "gpus-per-node": "gpus_per_node",
}
_SBATCH_NUMBERS = {
    "nodes": "nodes",
    "ntasks": "tasks",
    "cpus-per-task": "cores",
    "ntasks-per-node": "tasks_per_node",
}


def _duration(text: str, plain: str, where: str) -> float | None:
    try:
        return parse_duration(text, plain=plain)
    except Invalid as error:
        raise Invalid(error.what, where=where) from None


def _need_bytes(option: Option, where: str) -> None:
    try:
        parse_bytes(option.value)
    except Invalid as error:
        raise Invalid(f"--{option.name}: {error.what}", where=where) from None


def _hosts(text: str, where: str) -> tuple[str, ...]:
    try:
        return parse_hosts(text)
    except Invalid as error:
        raise Invalid(error.what, where=where) from None
