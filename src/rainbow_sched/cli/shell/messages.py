"""What goes to stderr: errors as one sentence or as JSON, warnings, and the narrative beside a result."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rainbow_sched.cli.render.listings import MACHINE, json_text
from rainbow_sched.cli.render.terminal import one_line
from rainbow_sched.cli.shell.exit_codes import Exit, of_error
from rainbow_sched.model.errors import Exhausted, RainbowError

OWN_CODE = frozenset({"run", "wait"})  # their exit code is the job's, so Rainbow's own failures are all 125


def say(message: str) -> None:
    """One line of narrative on stderr."""
    print(f"rainbow: {one_line(message)}", file=sys.stderr, flush=True)


def say_error(error: RainbowError, args: Sequence[str]) -> int:
    """Print `error` as the command line asked for it; the exit code."""
    code, name = of_error(error)
    if machine_output(args):
        described: dict[str, object] = {"code": name, "message": str(error)}
        if isinstance(error, Exhausted):
            described["retry_after"] = error.retry_after
        sys.stderr.write(json_text({"error": described}))
    else:
        say(str(error))
    return Exit.OURS if args and args[0] in OWN_CODE else code


def machine_output(args: Sequence[str]) -> bool:
    """True if the command line (or RAINBOW_OUTPUT) asks for output that a program reads."""
    own = list(args[: list(args).index("--")] if "--" in args else args)
    form = os.environ.get("RAINBOW_OUTPUT", "")
    for at, word in enumerate(own):
        if word in ("-o", "--output"):
            form = own[at + 1] if at + 1 < len(own) else form
        elif word.startswith("--output="):
            form = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--"):
            form = word[2:].removeprefix("=")
    return form in MACHINE
