"""How a job ended, in the same words whatever manager ran it: from its exit code, its signal, its limit. Pure."""

from __future__ import annotations

from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import AttemptState, Failure


def shell_code(code: int) -> int:
    """An exit code as a shell has it; a negative one stands for a signal."""
    return 128 - code if code < 0 else code


def exited(code: int, *, started: float | None = None, ended: float | None = None) -> Result:
    """It ended by itself, or by a signal, with this code."""
    if code == 0:
        return Result(state=AttemptState.SUCCEEDED, exit_code=0, started_at=started, ended_at=ended)
    return Result(
        state=AttemptState.FAILED,
        failure=Failure.EXIT,
        exit_code=code,
        reason=f"ended by signal {code - 128}" if code > 128 else f"exit code {code}",
        started_at=started,
        ended_at=ended,
    )


def over_limit(limit: float | None) -> str:
    """Why it was ended, when it ran too long; None: the limit is not known here."""
    return "ran longer than its time limit" if limit is None else f"ran longer than its limit of {limit:g} s"


def not_found(command: str) -> str:
    """Why it could not begin."""
    return f"cannot start {command!r}: not found"
