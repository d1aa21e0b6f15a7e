"""Messages on stderr: progress, warnings, and errors as a sentence or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rainbow_sched.cli.render.listings import MACHINE_FORMATS, json_text
from rainbow_sched.cli.render.terminal import one_line
from rainbow_sched.cli.shell.exit_codes import ExitCode, exit_code_of_error
from rainbow_sched.model.errors import Exhausted, RainbowError

JOB_EXIT_COMMANDS = frozenset({"run", "wait"})  # exit with the job's code, and with 125 if Rainbow failed


def print_message(message: str) -> None:
    """Print one line to stderr."""
    print(f"rainbow: {one_line(message)}", file=sys.stderr, flush=True)


def print_error(error: RainbowError, args: Sequence[str]) -> int:
    """Print `error` in the requested format; return the exit code."""
    code, name = exit_code_of_error(error)
    if wants_machine_output(args):
        described: dict[str, object] = {"code": name, "message": str(error)}
        if isinstance(error, Exhausted):
            described["retry_after"] = error.retry_after
        sys.stderr.write(json_text({"error": described}))
    else:
        print_message(str(error))
    return ExitCode.RAINBOW_FAILED if args and args[0] in JOB_EXIT_COMMANDS else code


def wants_machine_output(args: Sequence[str]) -> bool:
    """Return True if the command line (or RAINBOW_OUTPUT) requests JSON or YAML."""
    options = list(args[: list(args).index("--")] if "--" in args else args)
    format = os.environ.get("RAINBOW_OUTPUT", "")
    for index, word in enumerate(options):
        if word in ("-o", "--output"):
            format = options[index + 1] if index + 1 < len(options) else format
        elif word.startswith("--output="):
            format = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--"):
            format = word[2:].removeprefix("=")
    return format in MACHINE_FORMATS
