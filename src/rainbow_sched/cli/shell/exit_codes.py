"""Exit codes: what a script learns from each ending, in one table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from rainbow_sched.model.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    Denied,
    Exhausted,
    Impossible,
    Invalid,
    NotFound,
    RainbowError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)


class Exit(enum.IntEnum):
    """What the program's end means."""

    OK = 0
    FAILED = 1
    USAGE = 2  # wrong usage, or a specification that cannot be right
    UNSATISFIABLE = 3  # no cluster could ever run it
    NOT_FOUND = 4
    DENIED = 5
    UNREACHABLE = 6  # no server answers
    LATER = 75  # something could run it, but not now
    TIME_LIMIT = 124
    OURS = 125  # of run and wait: Rainbow failed, not the job
    INTERRUPTED = 130


# In this order: the first class that an error belongs to gives its code and its name for machines.
BY_CLASS: tuple[tuple[type[RainbowError], Exit, str], ...] = (
    (Invalid, Exit.USAGE, "invalid"),
    (Impossible, Exit.UNSATISFIABLE, "unsatisfiable"),
    (NotFound, Exit.NOT_FOUND, "not-found"),
    (Unauthenticated, Exit.DENIED, "unauthenticated"),
    (Denied, Exit.DENIED, "denied"),
    (Unavailable, Exit.UNREACHABLE, "unreachable"),
    (AlreadyExists, Exit.FAILED, "exists"),
    (Conflict, Exit.FAILED, "conflict"),
    (Exhausted, Exit.FAILED, "exhausted"),
    (Unsupported, Exit.FAILED, "unsupported"),
    (Corrupt, Exit.FAILED, "corrupt"),
    (RainbowError, Exit.FAILED, "failed"),
)


def of_error(error: RainbowError) -> tuple[Exit, str]:
    """The exit code of an error, and its name in JSON."""
    return next((code, name) for cls, code, name in BY_CLASS if isinstance(error, cls))


def of_job(job: Mapping[str, Any]) -> int:
    """The exit code that an ended job gives to `run` and `wait`: its own wherever it has one."""
    if job.get("failure") == "time-limit" or job["state"] == "expired":
        return Exit.TIME_LIMIT
    code: int | None = job.get("exit_code")
    if code is not None and (code != 0 or job["state"] == "succeeded"):
        return 128 - code if code < 0 else min(code, 255)
    match job["state"]:
        case "succeeded":
            return Exit.OK
        case "cancelled":
            return Exit.INTERRUPTED
        case "infeasible":
            return Exit.OURS
        case "failed" if "started_at" not in job:
            return Exit.OURS  # it never began
        case _:
            return Exit.FAILED  # also a job that was handed off: nobody will tell how it ends
