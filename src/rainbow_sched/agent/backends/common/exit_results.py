"""Results of jobs by exit code, signal and time limit, with the same reasons for all managers."""

from __future__ import annotations

from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import AttemptState, Failure


def shell_code(code: int) -> int:
    """Return the shell's exit code; a negative code stands for a signal."""
    return 128 - code if code < 0 else code


def exited(code: int, *, started: float | None = None, ended: float | None = None) -> Result:
    """Return the result of a job that exited with this code."""
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
    """Return the reason for a job that exceeded its time limit; None: the limit is not known."""
    return "ran longer than its time limit" if limit is None else f"ran longer than its limit of {limit:g} s"


def not_found(command: str) -> str:
    return f"cannot start {command!r}: not found"
