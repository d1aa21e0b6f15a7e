"""Run a command with a timeout and return its output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from rainbow_sched.model.errors import Unavailable

TIMEOUT_SECONDS = 60.0  # for one program, so that a hanging one does not block the discovery


class CommandTimeout(Unavailable):
    """A command timed out, so that its answer is unknown."""


def run_command(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    *,
    with_stderr: bool = False,
    timeout: float | None = None,
) -> str:
    """Return the output of a command; raise Unavailable if it fails, CommandTimeout if it times out."""
    timeout = TIMEOUT_SECONDS if timeout is None else timeout
    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandTimeout(f"{words[0]} did not answer within {timeout:g} s") from None
    except OSError as problem:
        raise Unavailable(f"cannot run {words[0]}: {problem.strerror}; is it installed and on PATH?") from None
    if done.returncode:
        errors = done.stderr.strip().splitlines()
        raise Unavailable(f"{' '.join(words[:3])} failed: {errors[-1] if errors else f'exit code {done.returncode}'}")
    return done.stdout + done.stderr if with_stderr else done.stdout
