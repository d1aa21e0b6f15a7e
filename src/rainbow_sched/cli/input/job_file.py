"""Read the files of a job: its jobspec or script, changed by options, and the compatibility document of its image."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rainbow_sched.cli.input.job_options import JobOptions
from rainbow_sched.jobspecs.dialects.compatibility import DEFAULT_RULES, AttributeRule, read_rules, with_compatibility
from rainbow_sched.jobspecs.dialects.script import is_script
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.request import Request

MAX_FILE_CHARS = 1 << 20  # bounds the memory for a wrong file
_DIRECTIVE = re.compile(r"\W{0,4}\s*(?:SBATCH|RAINBOW|flux:|FLUX:)")


def read_text(path: str, *, or_command: bool = False) -> str:
    """Return the text of a file; `-` is stdin. `or_command`: the path may be meant as a command."""
    if path == "-":
        text = sys.stdin.read(MAX_FILE_CHARS + 1).removeprefix("\ufeff")
    else:
        try:
            with Path(path).open(encoding="utf-8-sig") as file:  # accepts a byte order mark
                text = file.read(MAX_FILE_CHARS + 1)
        except FileNotFoundError:
            hint = f"; to run a command, write -- before it: -- {path}" if or_command else ""
            raise Invalid(f"there is no file {path}{hint}") from None
        except OSError as error:
            raise Invalid(f"cannot read {path}: {error.strerror}") from None
        except UnicodeError:
            raise Invalid("the file is not text; to run a program, write -- before it", where=path) from None
    if len(text) > MAX_FILE_CHARS:
        raise TooLarge(f"a jobspec or script must have at most {MAX_FILE_CHARS} characters", where=path)
    if not text.strip():
        raise Invalid("the file is empty", where=path)
    if "\0" in text:
        raise Invalid("the file is not text; to run a program, write -- before it", where=path)
    return text


def request_from_file(text: str, options: JobOptions) -> tuple[Request, bool]:
    """Return the request of a jobspec or script, and whether options changed it."""
    words = _resource_words(options)
    if not words:
        return parse(text, compat=_compatibility_rules(options)), bool(options.compat_table)
    if not is_script(text):
        raise Invalid(f"{words[0]}: a jobspec states its own resources; change them in the file")
    lines = text.splitlines(keepends=True)
    last = max((at for at, line in enumerate(lines) if _DIRECTIVE.match(line)), default=0)
    lines.insert(last + 1, f"#RAINBOW {shlex.join(words)}\n")  # a later directive beats an earlier one
    request = parse("".join(lines))
    return replace(request, tasks=tuple(replace(t, script=text) if t.script else t for t in request.tasks)), True


def with_image_compatibility(request: Request, options: JobOptions, path: str) -> Request:
    """Return the request with what the compatibility document at `path` requires."""
    return with_compatibility(request, read_text(path), rules=_compatibility_rules(options) or DEFAULT_RULES)


def _compatibility_rules(options: JobOptions) -> Mapping[str, AttributeRule] | None:
    return read_rules(read_text(options.compat_table)) if options.compat_table else None


def _resource_words(options: JobOptions) -> list[str]:
    """Return the resource options as words of a directive."""
    values = (
        ("--nodes", options.nodes),
        ("--ntasks", options.tasks),
        ("--cores-per-task", options.cores),
        ("--gpus-per-task", options.gpus),
        ("--gpus-per-node", options.gpus_per_node),
        ("--mem", options.mem),
    )
    words = [f"{option}={value}" for option, value in values if value is not None]
    return [*words, "--exclusive"] if options.exclusive else words
