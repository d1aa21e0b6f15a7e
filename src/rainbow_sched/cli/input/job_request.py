"""What was typed into what is sent: the request from flags, a jobspec or a script, and its terms."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rainbow_sched.cli.input.job_options import Asked
from rainbow_sched.cli.input.options import names, pairs
from rainbow_sched.cli.input.software import requirement
from rainbow_sched.cli.render.times import moment
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.jobspecs import canonical
from rainbow_sched.jobspecs.dialects.compatibility import DEFAULT_RULES, AttributeRule, read_rules, with_compatibility
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.dialects.requirements import require_at_nodes
from rainbow_sched.jobspecs.dialects.script import is_script
from rainbow_sched.jobspecs.reading.durations import parse_duration
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.job import MAX_DEPENDENCIES, Terms
from rainbow_sched.model.request import Group, Request

MAX_FILE = 1 << 20
_BEFORE_KEY = re.compile(r",(?=[A-Za-z_][A-Za-z0-9_-]*=)")
_JOBS = re.compile(r"([a-z]+):([0-9]{1,18}(?:-[0-9]{1,18})?(?::[0-9]{1,18}(?:-[0-9]{1,18})?)*)")
_DIRECTIVE = re.compile(r"\W{0,4}\s*(?:SBATCH|RAINBOW|flux:|FLUX:)")


_NEVER_EMPTY = ("mem", "time", "image", "cwd", "select", "deadline", "start_after", "lost_after", "array")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission, and the request inside it as it was read here."""

    submission: JobSubmission
    request: Request
    source: str = ""  # the file it came from


def prepare(asked: Asked, now: float, environment: Mapping[str, str]) -> Prepared:
    """Build and check what is sent; raise Invalid with what is wrong before anything leaves this machine."""
    _need_values(asked)
    path = asked.file or asked.jobspec
    if asked.file and asked.jobspec:
        raise Invalid(f"{asked.file} and --jobspec {asked.jobspec} were both given; give one of them")
    if asked.argv and asked.command:
        raise Invalid("--command and -- COMMAND were both given; give one of them")
    argv = asked.argv or tuple(_words(asked.command))
    if path and argv:
        raise Invalid(f"{path} and a command were both given; give a FILE, or -- COMMAND")
    if not path and not argv:
        raise Invalid("there is nothing to run; give a FILE (jobspec or script), or -- COMMAND, as in: -- hostname")
    if argv and not argv[0]:
        raise Invalid("the command is an empty word; is a variable before it not set?")
    text = read_text(path, or_command=path == asked.file) if path else ""
    if text:
        request, changed = _from_file(text, asked)
    else:
        request, changed = request_from_flags(_flags(asked, argv)), True
    adjusted = _adjusted(request, asked, environment)
    name = adjusted.name or _default_name(argv, path)
    said = {"canonical": canonical.to_json(adjusted)} if changed or adjusted != request else {"text": text}
    submission = JobSubmission(
        **said,
        name=name,
        terms=terms(asked, now),
        array=asked.array or "",
        dependencies=tuple(one for text in asked.dependencies for part in text.split(",") for one in _one_by_one(part)),
    )
    return Prepared(submission, adjusted, path or "")


def _need_values(asked: Asked) -> None:
    """An empty value is a variable that was not set: what was asked for must not be left out in silence."""
    for name in _NEVER_EMPTY:
        if getattr(asked, name) == "":
            raise Invalid(f"--{name.replace('_', '-')} is empty; give it a value, or leave it out")


def _one_by_one(dependency: str) -> list[str]:
    """`afterok:2:7-9`, with jobs as Slurm lists them and an array's as they are printed, as one for each of them."""
    found = _JOBS.fullmatch(dependency)
    if not found:
        return [dependency]  # the server says what is wrong with it
    ids: list[int] = []
    for part in found[2].split(":"):
        first, _, end = part.partition("-")
        last = int(end or first)
        if not int(first) <= last < int(first) + MAX_DEPENDENCIES:
            raise Invalid(f"--dependency: {part} is no range of 1 to {MAX_DEPENDENCIES} jobs; write 3-9, for example")
        ids += range(int(first), last + 1)
    return [f"{found[1]}:{id}" for id in ids]


def terms(asked: Asked, now: float) -> Terms:
    """The terms that the options ask for."""
    policy, options = _select(asked)
    deadline = moment(asked.deadline, now) if asked.deadline else None
    if deadline is not None and deadline <= now:
        raise Invalid(
            f"--deadline: {asked.deadline} is over; give a time to come, such as +6h, 18:00 or 2026-11-16T09:00"
        )
    return Terms(
        priority=asked.priority,
        retries=asked.retries,
        reruns=asked.rerun,
        lost_after=None if asked.lost_after is None else parse_duration(asked.lost_after),
        hold=asked.hold,
        start_after=moment(asked.start_after, now) if asked.start_after else None,
        deadline=deadline,
        fail_fast=asked.fail_fast,
        policy=policy,
        policy_options=options,
        only_clusters=asked.clusters,
        not_clusters=names(asked.not_clusters or ""),
        max_cost=asked.max_cost,
        prefer=asked.prefer or "",
        labels=pairs(asked.labels, "--label"),
    )


def read_text(path: str, *, or_command: bool = False) -> str:
    """A file's text; `-` is stdin. `or_command`: whoever wrote the path may have meant a command."""
    if path == "-":
        text = sys.stdin.read(MAX_FILE + 1).removeprefix("\ufeff")
    else:
        try:
            with Path(path).open(encoding="utf-8-sig") as file:  # some editors mark their files as UTF-8
                text = file.read(MAX_FILE + 1)
        except FileNotFoundError:
            hint = f"; to run a command, write -- before it: -- {path}" if or_command else ""
            raise Invalid(f"there is no file {path}{hint}") from None
        except OSError as error:
            raise Invalid(f"cannot read {path}: {error.strerror}") from None
        except UnicodeError:
            raise Invalid("it is not text; to run a program, write -- before it", where=path) from None
    if len(text) > MAX_FILE:
        raise TooLarge(f"a jobspec or script has at most {MAX_FILE} characters", where=path)
    if not text.strip():
        raise Invalid("the file is empty", where=path)
    if "\0" in text:
        raise Invalid("it is not text; to run a program, write -- before it", where=path)
    return text


def _from_file(text: str, asked: Asked) -> tuple[Request, bool]:
    """The request of a jobspec or script, and whether the flags changed it."""
    words = _resource_words(asked)
    if not words:
        return parse(text, compat=_table(asked)), bool(asked.compat_table)
    if not is_script(text):
        raise Invalid(f"{words[0]}: a jobspec says itself what it needs; change it in the file")
    lines = text.splitlines(keepends=True)
    last = max((at for at, line in enumerate(lines) if _DIRECTIVE.match(line)), default=0)
    lines.insert(last + 1, f"#RAINBOW {shlex.join(words)}\n")  # a later directive beats an earlier one
    request = parse("".join(lines))
    return replace(request, tasks=tuple(replace(t, script=text) if t.script else t for t in request.tasks)), True


def _table(asked: Asked) -> Mapping[str, AttributeRule] | None:
    return read_rules(read_text(asked.compat_table)) if asked.compat_table else None


def _resource_words(asked: Asked) -> list[str]:
    """The resource flags as the directive that says the same."""
    said = (
        ("--nodes", asked.nodes),
        ("--ntasks", asked.tasks),
        ("--cores-per-task", asked.cores),
        ("--gpus-per-task", asked.gpus),
        ("--gpus-per-node", asked.gpus_per_node),
        ("--mem", asked.mem),
    )
    words = [f"{option}={value}" for option, value in said if value is not None]
    return [*words, "--exclusive"] if asked.exclusive else words


def _flags(asked: Asked, argv: tuple[str, ...]) -> Flags:
    return Flags(
        nodes=asked.nodes,
        tasks=asked.tasks,
        cores_per_task=asked.cores or 1,
        gpus_per_task=asked.gpus or 0,
        gpus_per_node=asked.gpus_per_node or 0,
        memory=asked.mem or "",
        exclusive=asked.exclusive,
        command=argv,
    )


def _adjusted(request: Request, asked: Asked, environment: Mapping[str, str]) -> Request:
    """The request with what flags may change whatever it came from: flag before directive."""
    needed = tuple(requirement(text) for text in asked.software)
    if needed:
        groups = tuple(
            Group(name=group.name, levels=tuple(require_at_nodes(level, needed) for level in group.levels))
            for group in request.groups
        )
        request = replace(request, groups=groups)
    if asked.compat:
        request = with_compatibility(request, read_text(asked.compat), rules=_table(asked) or DEFAULT_RULES)
    return replace(
        request,
        name=asked.name or request.name,
        duration=parse_duration(asked.time) if asked.time else request.duration,
        cwd=asked.cwd or request.cwd,
        image=asked.image or request.image,
        environment={**request.environment, **_environment(asked.env, environment)},
    )


def _environment(words: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """`KEY=VALUE`, or `KEY` for the caller's own value."""
    out: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator and key not in environment:
            raise Invalid(f"--env {key}: it is not set here; write {key}=VALUE")
        if not key:
            raise Invalid(f"--env {word}: a name stands before the =; write KEY=VALUE")
        out[key] = value if separator else environment[key]
        if not out[key].isascii() and out[key].encode(errors="ignore").decode() != out[key]:
            raise Invalid(f"--env {key}: its value is not text in UTF-8")
    return out


def _select(asked: Asked) -> tuple[str, dict[str, str]]:
    """`least:key=queue_depth` into the policy and its options; a comma parts options only before the next KEY=."""
    policy, _, rest = (asked.select or "").partition(":")
    words = tuple(_BEFORE_KEY.split(rest)) if rest else ()
    options = pairs(words, "--select") | pairs(asked.select_options, "--select-option")
    if options and not policy:
        raise Invalid("--select-option needs --select POLICY")
    return policy, {key: read_text(value[1:]) if value.startswith("@") else value for key, value in options.items()}


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError as error:
        raise Invalid(f"--command cannot be split into words: {error}") from None


def _default_name(argv: tuple[str, ...], path: str | None) -> str:
    word = argv[0] if argv else path if path and path != "-" else ""
    return "".join(one for one in Path(word).name if one.isprintable())[:64] if word else ""
