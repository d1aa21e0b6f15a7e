"""Build the submission of a job from options, a jobspec or a script, check its clusters, and sign it."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rainbow_sched.cli.input.job_options import JobOptions
from rainbow_sched.cli.input.options import names, pairs
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.render.times import parse_time
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.jobspecs import canonical
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.errors import Denied, Invalid, NotFound, Unauthenticated
from rainbow_sched.model.hints import nearest
from rainbow_sched.model.job import MAX_DEPENDENCIES, Terms
from rainbow_sched.model.quantities import parse_duration
from rainbow_sched.model.ranges import parse_range
from rainbow_sched.model.request import Group, Request

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rainbow_sched.client.jobs import JobClient

_BEFORE_KEY = re.compile(r",(?=[A-Za-z_][A-Za-z0-9_-]*=)")
_NEVER_EMPTY = ("mem", "time", "image", "cwd", "select", "deadline", "start_after", "lost_after", "array")


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A submission, and its parsed request."""

    submission: JobSubmission
    request: Request
    source: str = ""  # name of the file


def prepare(options: JobOptions, now: float, environment: Mapping[str, str]) -> PreparedJob:
    """Build and check the submission; raise Invalid if an option is wrong."""
    for name in _NEVER_EMPTY:
        if getattr(options, name) == "":  # probably an unset shell variable
            raise Invalid(f"--{name.replace('_', '-')} is empty; give it a value, or leave it out")
    path = options.file or options.jobspec
    if options.file and options.jobspec:
        raise Invalid(f"{options.file} and --jobspec {options.jobspec} were both given; give one of them")
    if options.argv and options.command:
        raise Invalid("--command and -- COMMAND were both given; give one of them")
    argv = options.argv or tuple(_split_command(options.command))
    if path and argv:
        raise Invalid(f"{path} and a command were both given; give a FILE, or -- COMMAND")
    if not path and not argv:
        raise Invalid("there is nothing to run; give a FILE (jobspec or script), or -- COMMAND, as in: -- hostname")
    if argv and not argv[0]:
        raise Invalid("the command is an empty word; is a shell variable not set?")
    text = ""
    if path:
        from rainbow_sched.cli.input.job_file import read_text, request_from_file  # a command needs no reader of files

        text = read_text(path, or_command=path == options.file)
        request, changed = request_from_file(text, options)
    else:
        request, changed = request_from_flags(_flags(options, argv)), True
    adjusted = _adjusted(request, options, environment)
    name = adjusted.name or _default_name(argv, path)
    content = {"canonical": canonical.to_json(adjusted)} if changed or adjusted != request else {"text": text}
    submission = JobSubmission(
        **content,
        name=name,
        terms=terms(options, now),
        array=options.array or "",
        dependencies=tuple(
            one for text in options.dependencies for part in text.split(",") for one in _expand_dependency(part)
        ),
    )
    return PreparedJob(submission, adjusted, path or "")


def _expand_dependency(dependency: str) -> list[str]:
    """Expand `afterok:2:7-9` to one dependency per job."""
    kind, *parts = dependency.split(":")
    ids: list[int] = []
    for part in parts:
        span = parse_range(part)
        if span is None:
            return [dependency]  # the server reports the error
        first, last = span
        if not first <= last < first + MAX_DEPENDENCIES:
            raise Invalid(f"--dependency: {part} must be a range of 1 to {MAX_DEPENDENCIES} job ids, for example 3-9")
        ids += range(first, last + 1)
    return [f"{kind}:{id}" for id in ids] or [dependency]


def terms(options: JobOptions, now: float) -> Terms:
    """Return the terms from the options."""
    policy, policy_options = _select(options)
    deadline = parse_time(options.deadline, now) if options.deadline else None
    if deadline is not None and deadline <= now:
        raise Invalid(
            f"--deadline: {options.deadline} is in the past; write for example +6h, 18:00 or 2026-11-16T09:00"
        )
    return Terms(
        priority=options.priority,
        retries=options.retries,
        reruns=options.rerun,
        lost_after=None if options.lost_after is None else parse_duration(options.lost_after),
        hold=options.hold,
        start_after=parse_time(options.start_after, now) if options.start_after else None,
        deadline=deadline,
        fail_fast=options.fail_fast,
        policy=policy,
        policy_options=policy_options,
        only_clusters=options.clusters,
        not_clusters=names(options.not_clusters or ""),
        max_cost=options.max_cost,
        prefer=options.prefer or "",
        labels=pairs(options.labels, "--label"),
    )


def _flags(options: JobOptions, argv: tuple[str, ...]) -> Flags:
    return Flags(
        nodes=options.nodes,
        tasks=options.tasks,
        cores_per_task=options.cores or 1,
        gpus_per_task=options.gpus or 0,
        gpus_per_node=options.gpus_per_node or 0,
        memory=options.mem or "",
        exclusive=options.exclusive,
        command=argv,
    )


def _adjusted(request: Request, options: JobOptions, environment: Mapping[str, str]) -> Request:
    """Return the request changed by options that apply to all kinds of input."""
    if options.software:
        from rainbow_sched.cli.input.software import requirement
        from rainbow_sched.jobspecs.dialects.requirements import require_at_nodes

        requirements = tuple(requirement(text) for text in options.software)
        groups = tuple(
            Group(name=group.name, levels=tuple(require_at_nodes(level, requirements) for level in group.levels))
            for group in request.groups
        )
        request = replace(request, groups=groups)
    if options.compat:
        from rainbow_sched.cli.input.job_file import with_image_compatibility

        request = with_image_compatibility(request, options, options.compat)
    return replace(
        request,
        name=options.name or request.name,
        duration=parse_duration(options.time) if options.time else request.duration,
        cwd=options.cwd or request.cwd,
        image=options.image or request.image,
        environment={**request.environment, **_environment(options.env, environment)},
        options={**request.options, **options.manager},
    )


def _environment(words: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables from `KEY=VALUE`, or `KEY` for the caller's own value."""
    out: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator and key not in environment:
            raise Invalid(f"--env {key}: the variable is not set; write {key}=VALUE")
        if not key:
            raise Invalid(f"--env {word}: the name is missing; write KEY=VALUE")
        out[key] = value if separator else environment[key]
        if not out[key].isascii() and out[key].encode(errors="ignore").decode() != out[key]:
            raise Invalid(f"--env {key}: the value is not UTF-8 text")
    return out


def _select(options: JobOptions) -> tuple[str, dict[str, str]]:
    """Split `least:key=queue_depth` into policy and options; only a comma before KEY= separates options."""
    policy, _, rest = (options.select or "").partition(":")
    words = tuple(_BEFORE_KEY.split(rest)) if rest else ()
    values = pairs(words, "--select") | pairs(options.select_options, "--select-option")
    if values and not policy:
        raise Invalid("--select-option needs --select POLICY")
    return policy, {key: _text_or_file(value) for key, value in values.items()}


def _text_or_file(value: str) -> str:
    """Return the value of a policy's option; `@FILE` is the text of a file."""
    if not value.startswith("@"):
        return value
    from rainbow_sched.cli.input.job_file import read_text

    return read_text(value[1:])


def _split_command(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError as error:
        raise Invalid(f"--command cannot be split into words: {error}") from None


def _default_name(argv: tuple[str, ...], path: str | None) -> str:
    word = argv[0] if argv else path if path and path != "-" else ""
    return "".join(one for one in Path(word).name if one.isprintable())[:64] if word else ""


def signing_key(options: JobOptions, environment: Mapping[str, str]) -> Ed25519PrivateKey | None:
    """Return the key for `--sign`, or None without it."""
    if not options.sign:
        if options.key:
            raise Invalid("--key needs --sign")
        return None
    from rainbow_sched.client.signatures import key_path, load_key

    return load_key(key_path(options.key, environment))


async def sign(client: JobClient, prepared: PreparedJob, key: Ed25519PrivateKey | None) -> JobSubmission:
    """Return the submission, signed if there is a key.

    The server names the owner. If it named another one, the site would not find the key under that name.
    """
    if key is None:
        return prepared.submission
    from rainbow_sched.client.access import AccessClient
    from rainbow_sched.client.signatures import signed

    owner = (await AccessClient(client.connection).who_am_i()).name
    exact = replace(prepared.submission, canonical=canonical.to_json(prepared.request), text="", dialect="")
    return signed(exact, key, owner, time.time())


async def check_clusters(client: JobClient, terms: Terms) -> None:
    """Raise NotFound for an unknown cluster in -M, and warn of one in --not."""
    if not terms.only_clusters and not terms.not_clusters:
        return
    from rainbow_sched.client.clusters import ClusterClient

    try:
        known = {cluster.name for cluster in await ClusterClient(client.connection).clusters()}
    except (Denied, Unauthenticated):
        return  # a user may submit to clusters without the right to list them
    for name in terms.only_clusters:
        if name not in known:
            raise NotFound(unknown_cluster(name, known))
    for name in terms.not_clusters:
        if name not in known:
            print_message(f"warning: --not {name}: {unknown_cluster(name, known)}")


def unknown_cluster(name: str, known: set[str]) -> str:
    """Return the message for an unknown cluster, with a suggestion."""
    near = nearest(name, known, cutoff=0.75)
    hint = f"did you mean {near}?" if near else "`rainbow clusters` lists those you may see"
    return f"there is no cluster {name!r}; {hint}"
