"""Convert a batch script with `#SBATCH`, `# flux:` or `#RAINBOW` lines into a Request that runs the script once.

Site-specific names (partition, account …) go to `Request.options`; other unsupported options are
reported with their line.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.documents.reader import MAX_BYTES
from rainbow_sched.jobspecs.dialects.constraints import parse_hosts
from rainbow_sched.jobspecs.dialects.draft import RequestDraft
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS
from rainbow_sched.jobspecs.reading.fields import located
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.quantities import parse_bytes, parse_duration
from rainbow_sched.model.request import Request

_SBATCH = re.compile(r"#SBATCH(?:\s|$)(.*)")
_RAINBOW = re.compile(r"#\s?RAINBOW:?(?:\s|$)(.*)")
_FLUX = re.compile(r"([^\w]*)(?:flux|FLUX):(.*)")
_TRIPLE = re.compile(r"(\"{3}|'{3})(.*?)\1")
# Any directive: marks text without an interpreter line as a script. Bounded repeats keep the search fast.
_ANY = re.compile(r"^(?:#SBATCH|# ?RAINBOW:?|[^\w\s:]{1,4} {0,4}(?:flux|FLUX):)[ \t]{1,40}-", re.MULTILINE)
_PROPERTIES = re.compile(r"[-^]?[A-Za-z0-9][\w.+-]*(?:,[-^]?[A-Za-z0-9][\w.+-]*)*")  # that all hold, or do not hold
_PLAIN = re.compile(r"[\w \t=,.:/@%+-]*", re.ASCII)  # words without quotes, escapes and comments
_WHOLE = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Grammar:
    """The letters of options, and the names that take no value."""

    letters: Mapping[str, str]
    switches: frozenset[str]
    names: frozenset[str]  # every known long name


def _grammar(letters: str, names: str, switches: str, stored: Iterable[str]) -> Grammar:
    """Build a grammar from words: letters as `N=nodes n=ntasks`, names with a value, and names without one.

    `stored` are the names of options for the manager.
    """
    no_value = frozenset(switches.split())
    table = dict(word.split("=", 1) for word in letters.split())
    return Grammar(letters=table, switches=no_value, names=frozenset([*names.split(), *stored]) | no_value)


_COMMON = "nodes ntasks job-name "
_SBATCH_LETTERS = """
    N=nodes n=ntasks c=cpus-per-task t=time J=job-name o=output e=error i=input p=partition A=account q=qos
    C=constraint G=gpus a=array D=chdir w=nodelist x=exclude d=dependency M=clusters H=hold b=begin L=licenses
"""
_SBATCH_NAMES = """
    cpus-per-task time mem gres ntasks-per-node mail-type mail-user mem-per-cpu array gpus export nodelist exclude
    chdir gpus-per-node gpus-per-task dependency begin
"""
_FLUX_LETTERS = "N=nodes n=ntasks c=cores-per-task g=gpus-per-task t=time-limit q=queue B=bank x=exclusive o=setopt"
_FLUX_NAMES = """
    nslots cores-per-task cores-per-slot gpus-per-task gpus-per-slot time-limit cwd env setopt setattr requires
    dependency
"""
_RAINBOW_NAMES = " time mem mem-per-cpu gpus-per-node"
_SBATCH_SWITCHES = "exclusive overcommit requeue no-requeue hold wait"
_STORED = MANAGER_OPTIONS.values()
SBATCH = _grammar(
    _SBATCH_LETTERS, _COMMON + _SBATCH_NAMES, _SBATCH_SWITCHES, (one.name for one in _STORED if one.sbatch)
)
FLUX = _grammar(_FLUX_LETTERS, _COMMON + _FLUX_NAMES, "exclusive", (one.name for one in _STORED if one.flux))
RAINBOW = _grammar(
    f"{_FLUX_LETTERS} J=job-name",
    _COMMON + _FLUX_NAMES + _RAINBOW_NAMES,
    "exclusive",
    (one.name for one in _STORED if one.rainbow),
)
_NUMBERS = {  # what each option with a number says
    "nodes": "nodes",
    "ntasks": "tasks",
    "nslots": "tasks",
    "cores-per-task": "cores",
    "cores-per-slot": "cores",
    "cpus-per-task": "cores",
    "gpus-per-task": "gpus_per_task",
    "gpus-per-slot": "gpus_per_task",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "tasks_per_node",
}


@dataclass(frozen=True, slots=True)
class _Line:
    grammar: Grammar
    text: str
    number: int


def is_script(text: str) -> bool:
    """Return True if the text has an interpreter line or a directive."""
    return text.startswith("#!") or _ANY.search(text) is not None


def from_script(text: str) -> Request:
    """Read the directives of a script; the script becomes the task."""
    if len(text) > MAX_BYTES:
        raise TooLarge(f"the script has {len(text)} characters; the maximum is {MAX_BYTES}")
    if "\0" in text:
        raise Invalid("the script contains a NUL character; it is not text")
    options = ScriptOptions(script=text)
    for line in _directives(text, options):
        where = f"line {line.number}"
        try:
            plain = _PLAIN.fullmatch(line.text)  # most lines; shlex takes ten times as long
            words = line.text.split() if plain else shlex.split(line.text, comments=True)
        except ValueError as error:
            raise Invalid(f"the directive cannot be split into words: {error}", where=where) from None
        for option in read_options(words, line.grammar, where):
            if option.known:
                options.add(option, where, sbatch=line.grammar is SBATCH)
            elif line.grammar is RAINBOW:
                raise Invalid(f"unknown option {option}{did_you_mean(option.name, RAINBOW.names)}", where=where)
            else:
                options.draft.note(where, f"{option} is not known and not honoured")
    return options.request()


def _directives(text: str, options: ScriptOptions) -> list[_Line]:
    """Return the valid directive lines; others are reported, or refused as RFC 36 requires."""
    lines: list[_Line] = []
    prefix: str | None = None  # of the first flux directive
    commands = False  # sbatch stops at the first command
    flux_ended = False  # flux stops at the first line that does not begin like its first directive
    for number, line in enumerate(text.splitlines(), start=1):
        directive, sentinel = _directive(line, number)
        if sentinel is not None:
            if flux_ended:
                raise Invalid("a flux directive after the first command; move it up", where=f"line {number}")
            if prefix not in (None, sentinel):
                raise Invalid("all flux directives must begin with the same characters", where=f"line {number}")
            prefix = sentinel
        elif line.strip():
            commands = commands or not line.startswith("#")
            flux_ended = flux_ended or (prefix is not None and not line.startswith(prefix))
        if directive is not None and sentinel is None and commands:
            options.draft.note(f"line {number}", "a directive after the first command is not read")
        elif directive is not None:
            lines.append(directive)
    return _joined(lines)


def _joined(lines: list[_Line]) -> list[_Line]:
    """Replace triple-quoted literals of Flux lines, and join the lines of a literal that spans several."""
    joined: list[_Line] = []
    opening: _Line | None = None
    literal: list[str] = []
    for line in lines:
        if opening is not None:
            if line.text.strip() == opening.text.rstrip()[-3:]:
                content = textwrap.dedent("\n".join([*literal, ""]))
                joined.append(replace(opening, text=opening.text.rstrip()[:-3] + shlex.quote(content)))
                opening = None
            literal.append(line.text)
            continue
        if line.grammar is FLUX:
            line = replace(line, text=_TRIPLE.sub(lambda match: shlex.quote(match[2]), line.text))
            if line.text.rstrip().endswith(('"""', "'''")):
                opening, literal = line, []
                continue
        joined.append(line)
    if opening is not None:
        raise Invalid("the triple quotes are not closed", where=f"line {opening.number}")
    return joined


def _directive(line: str, number: int) -> tuple[_Line | None, str | None]:
    """Return the directive of a line, and the characters before `flux:` for a Flux directive."""
    if match := _SBATCH.fullmatch(line):
        return _Line(SBATCH, match[1], number), None
    if match := _RAINBOW.fullmatch(line):
        return _Line(RAINBOW, match[1], number), None
    match = _FLUX.fullmatch(line)
    if match and (match[2].startswith((" ", "\t")) or not match[2]):
        return _Line(FLUX, match[2], number), match[1]
    return None, None


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
    draft: RequestDraft = field(default_factory=RequestDraft)
    numbers: dict[str, int] = field(default_factory=dict)  # nodes, tasks, cores, gpus ...
    memory: str = ""
    memory_per_core: str = ""
    exclusive: bool = False
    whole_nodes: bool = False  # Flux: -N without -n means exclusive nodes

    def add(self, option: Option, where: str, *, sbatch: bool) -> None:
        """Add an option of `sbatch`, or of `flux batch` and Rainbow."""
        name, value, draft = option.name, option.value, self.draft
        self.whole_nodes = not sbatch or self.whole_nodes
        if sbatch and name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
            self._add_gpus(option, where)
        elif name in _NUMBERS:
            self.numbers[_NUMBERS[name]] = self._whole(option, where)
        elif name == "job-name":
            draft.name = value
        elif name in ("cwd", "chdir"):
            draft.cwd = value
        elif name in ("time", "time-limit"):
            with located(where):
                draft.duration = parse_duration(value, plain="m" if sbatch else "s")
        elif name in ("env", "export"):
            for part in value.split(",") if name == "export" else [value]:
                self._set_variable(part, option, where)
        elif name == "requires" and _PROPERTIES.fullmatch(value):
            words = value.split(",")
            draft.properties += tuple(word.replace("-", "^", 1) if word[0] == "-" else word for word in words)
        elif name == "nodelist":
            with located(where):
                draft.hosts = parse_hosts(value)
        elif name == "exclude":
            with located(where):
                draft.not_hosts = parse_hosts(value)
        elif name == "exclusive":
            self.exclusive = True
            if value:
                draft.note(where, f"{option} is read as --exclusive")
        elif name in ("mem", "mem-per-cpu"):
            self._set_memory(option, where)
        elif name in MANAGER_OPTIONS:
            draft.options[name] = value
        else:
            draft.note(where, f"{option} is not honoured")

    def request(self) -> Request:
        numbers, draft = self.numbers, self.draft
        nodes, tasks = numbers.get("nodes"), numbers.get("tasks")
        per_node, total_gpus = numbers.get("tasks_per_node", 1), numbers.get("gpus", 0)
        gpus_per_node = numbers.get("gpus_per_node", 0)
        if nodes is None and (gpus_per_node or total_gpus or self.exclusive or per_node > 1):
            nodes = 1 if tasks is None or per_node == 1 else -(-tasks // per_node)
            draft.ignored.append(f"no number of nodes is given: {nodes} assumed")
        if nodes is not None:
            if tasks is None and not self.whole_nodes:
                tasks = nodes * per_node
            if total_gpus:
                gpus_per_node = -(-total_gpus // nodes)
        flags = Flags(
            nodes=nodes,
            tasks=tasks,
            cores_per_task=numbers.get("cores", 1),
            gpus_per_task=numbers.get("gpus_per_task", 0),
            gpus_per_node=gpus_per_node,
            memory=self.memory,
            memory_per_core=self.memory_per_core,
            exclusive=self.exclusive,
            script=self.script,
        )
        asked = request_from_flags(flags)
        draft.groups, draft.tasks = list(asked.groups), list(asked.tasks)
        return draft.finish()

    def _set_memory(self, option: Option, where: str) -> None:
        if option.value.rstrip("KMGTkmgt") == "0":
            self.draft.note(where, f"{option} (all memory of the node) is not honoured")
            return
        with located(f"{where}: --{option.name}"):
            parse_bytes(option.value)
        if option.name == "mem":
            self.memory = option.value
        else:
            self.memory_per_core = option.value

    def _whole(self, option: Option, where: str) -> int:
        low, dash, _ = option.value.partition("-")
        if not _WHOLE.fullmatch(low):
            raise Invalid(f"{option} must be a whole number of at least 1", where=where)
        if dash:
            self.draft.note(where, f"of {option} only the least, {low}, is considered")
        return int(low)

    def _add_gpus(self, option: Option, where: str) -> None:
        """Add gpus: `gpu:2` or `gpu:a100:4` of --gres, `4` or `a100:4` of the other options."""
        parts = option.value.split(":")
        if option.name == "gres":
            if parts[0] != "gpu" or "," in option.value:
                self.draft.note(where, f"{option} is not honoured")
                return
            parts = parts[1:]
        number = parts.pop() if parts and parts[-1].isdecimal() else "1"
        if parts:
            self.draft.note(where, f"the kind {':'.join(parts)} of {option} is not checked")
        if not _WHOLE.fullmatch(number):
            raise Invalid(f"{option} must be a number of gpus", where=where)
        key = {"gpus": "gpus", "gpus-per-task": "gpus_per_task"}.get(option.name, "gpus_per_node")
        self.numbers[key] = int(number)

    def _set_variable(self, text: str, option: Option, where: str) -> None:
        name, separator, value = text.partition("=")
        if separator and name:
            self.draft.environment[name] = value
        elif name not in ("ALL", ""):
            self.draft.note(where, f"{name} of {option} is not honoured; write NAME=VALUE")
