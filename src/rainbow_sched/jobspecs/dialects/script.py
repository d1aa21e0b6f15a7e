"""Convert a batch script with `#SBATCH`, `# flux:` or `#RAINBOW` lines into a Request that runs the script once.

Site-specific names (partition, account …) go to `Request.options`; other unsupported options are
reported with their line.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rainbow_sched.documents.reader import MAX_BYTES
from rainbow_sched.jobspecs.dialects.script_options import Grammar, Option, ScriptOptions, read_options
from rainbow_sched.jobspecs.manager_options import MANAGER_OPTIONS
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request

_SBATCH = re.compile(r"#SBATCH(?:\s|$)(.*)")
_RAINBOW = re.compile(r"#\s?RAINBOW:?(?:\s|$)(.*)")
_FLUX = re.compile(r"([^\w]*)(?:flux|FLUX):(.*)")
_TRIPLE = re.compile(r"(\"{3}|'{3})(.*?)\1")
# Any directive: marks text without an interpreter line as a script. Bounded repeats keep the search fast.
_ANY = re.compile(r"^(?:#SBATCH|# ?RAINBOW:?|[^\w\s:]{1,4} {0,4}(?:flux|FLUX):)[ \t]{1,40}-", re.MULTILINE)


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


@dataclass(frozen=True, slots=True)
class _Line:
    grammar: Grammar
    text: str
    number: int


def is_script(text: str) -> bool:
    """Return True if the text has an interpreter line or a directive."""
    return text.startswith("#!") or _ANY.search(text) is not None


def from_script(text: str, *, max_bytes: int = MAX_BYTES) -> Request:
    """Read the directives of a script; the script becomes the task."""
    if len(text) > max_bytes:
        raise TooLarge(f"the script has {len(text)} characters; the maximum is {max_bytes}")
    if "\0" in text:
        raise Invalid("the script contains a NUL character; it is not text")
    options = ScriptOptions(script=text)
    for line in _directives(text, options):
        where = f"line {line.number}"
        try:
            words = shlex.split(line.text, comments=True)
        except ValueError as error:
            raise Invalid(f"the directive cannot be split into words: {error}", where=where) from None
        for option in read_options(words, line.grammar, where):
            _add(option, line, options, where)
    return options.request()


def _add(option: Option, line: _Line, options: ScriptOptions, where: str) -> None:
    if not option.known:
        if line.grammar is RAINBOW:
            raise Invalid(f"unknown option {option}{did_you_mean(option.name, RAINBOW.names)}", where=where)
        options.note(where, f"{option} is not known and not honoured")
    elif line.grammar is SBATCH:
        options.add_sbatch(option, where)
    else:
        options.add_flux(option, where)


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
            options.note(f"line {number}", "a directive after the first command is not read")
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
