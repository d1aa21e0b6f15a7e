"""Runs one command of this machine and returns what it printed, within a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from rainbow_sched.model.errors import Unavailable

TIMEOUT = 60.0


class Silent(Unavailable):
    """A command did not answer in time: what it would have said is not known."""


def output(words: tuple[str, ...], environment: Mapping[str, str], *, both: bool = False) -> str:
    """What the command printed, with `both` its errors too; raise Unavailable if it fails, with what it said.

    Silent, if it does not answer in time.
    """
    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Silent(f"{words[0]} did not answer within {TIMEOUT:g} s") from None
    except OSError as problem:
        raise Unavailable(f"{words[0]} cannot be run: {problem.strerror}; is it installed, and on PATH?") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Unavailable(f"{' '.join(words[:3])} failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout + done.stderr if both else done.stdout
