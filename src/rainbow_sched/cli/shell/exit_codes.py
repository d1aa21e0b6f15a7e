"""Exit codes of the program, for errors and for ended jobs, and how an error is printed."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rainbow_sched.cli.render.listings import MACHINE_FORMATS, json_text
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.model import errors
from rainbow_sched.model.errors import Exhausted, RainbowError

JOB_EXIT_COMMANDS = frozenset({"run", "wait"})  # exit with the job's code, and with 125 if Rainbow failed


class ExitCode(enum.IntEnum):
    """Meaning of an exit code."""

    OK = 0
    FAILED = 1
    USAGE = 2  # wrong usage, or a specification that cannot be right
    UNSATISFIABLE = 3  # no cluster can ever run it
    NOT_FOUND = 4
    DENIED = 5
    UNREACHABLE = 6  # no server answers
    LATER = 75  # a cluster can run it, but not now
    TIME_LIMIT = 124
    RAINBOW_FAILED = 125  # of run and wait: Rainbow failed, not the job
    INTERRUPTED = 130


# The first class that matches an error determines its exit code and its name in JSON.
EXIT_CODES_BY_ERROR: tuple[tuple[type[RainbowError], ExitCode, str], ...] = (
    (errors.Invalid, ExitCode.USAGE, "invalid"),
    (errors.Impossible, ExitCode.UNSATISFIABLE, "unsatisfiable"),
    (errors.NotFound, ExitCode.NOT_FOUND, "not-found"),
    (errors.Unauthenticated, ExitCode.DENIED, "unauthenticated"),
    (errors.Denied, ExitCode.DENIED, "denied"),
    (errors.Unavailable, ExitCode.UNREACHABLE, "unreachable"),
    (errors.AlreadyExists, ExitCode.FAILED, "exists"),
    (errors.Conflict, ExitCode.FAILED, "conflict"),
    (errors.Exhausted, ExitCode.FAILED, "exhausted"),
    (errors.Unsupported, ExitCode.FAILED, "unsupported"),
    (errors.Corrupt, ExitCode.FAILED, "corrupt"),
    (RainbowError, ExitCode.FAILED, "failed"),
)


def exit_code_of_error(error: RainbowError) -> tuple[ExitCode, str]:
    """Return the exit code of an error, and its name in JSON."""
    return next((code, name) for cls, code, name in EXIT_CODES_BY_ERROR if isinstance(error, cls))


def exit_code_of_job(job: Mapping[str, Any]) -> int:
    """Return the exit code of `run` and `wait` for an ended job: the job's own if it has one."""
    if job.get("failure") == "time-limit" or job["state"] == "expired":
        return ExitCode.TIME_LIMIT
    code: int | None = job.get("exit_code")
    if code is not None and (code != 0 or job["state"] == "succeeded"):
        return 128 - code if code < 0 else min(code, 255)
    match job["state"]:
        case "succeeded":
            return ExitCode.OK
        case "cancelled":
            return ExitCode.INTERRUPTED
        case "infeasible":
            return ExitCode.RAINBOW_FAILED
        case "failed" if "started_at" not in job:
            return ExitCode.RAINBOW_FAILED  # it never started
        case _:
            return ExitCode.FAILED  # also a job that was handed off: its outcome is not reported


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
