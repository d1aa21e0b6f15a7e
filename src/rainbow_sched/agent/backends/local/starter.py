"""A small warm process that forks a runner for every job it is told of; the agent starts it and speaks to it by pipes.

An interpreter takes twenty milliseconds to start, a fork one. It reads tags, one a line, and
answers each with the runner's process id. When the agent goes it goes, too; runners stay.
Nothing but the standard library is imported here, and in what is imported from here.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import rainbow_sched
from rainbow_sched.agent.backends.local import wrapper

_MAIN = "from rainbow_sched.agent.backends.local.starter import main; main(sys.argv[2:])"
_BEGIN = f"import sys; sys.path.append(sys.argv[1]); {_MAIN}"


def words(*arguments: str) -> list[str]:
    """The command that starts it, or with `--one DIR` a single runner; nothing in the environment can change it."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(Path(rainbow_sched.__file__).parent.parent), *arguments]


def main(arguments: list[str]) -> None:
    """`ROOT`: serve the jobs below it; `--one DIR`: be the runner of one job."""
    if arguments[0] == "--one":
        sys.exit(wrapper.main(Path(arguments[1]).resolve()))
    serve(Path(arguments[0]).resolve())


def serve(root: Path) -> None:
    """Fork a runner for each tag that comes in, until nobody is left to ask."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is reaped by the kernel
    with os.fdopen(os.dup(0), "rb") as asked:
        for line in asked:
            tag = line.decode().strip()
            try:
                pid = os.fork()
            except OSError:
                pid = -1  # no process to be had now
            if pid == 0:
                _run(root / tag)
            try:
                os.write(1, f"{tag} {pid}\n".encode())
            except BrokenPipeError:
                return


def _run(directory: Path) -> None:
    """Be a runner; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 256)
        code = wrapper.main(directory)
    except BaseException:  # the last resort of a process: whatever went wrong is left where the agent finds it
        (directory / "runner.log").write_text(traceback.format_exc())
    finally:
        os._exit(code)
