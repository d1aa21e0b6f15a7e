"""A small process that forks a runner for each job; the agent talks to it over pipes.

Starting an interpreter takes twenty milliseconds, a fork one. The process reads one tag per line and answers with the
runner's process id. It exits with the agent; runners continue. It imports only the standard library, directly and
indirectly.
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
    """Return the command of the starter, or with `--one DIR` of a single runner, independent of the environment."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(Path(rainbow_sched.__file__).parent.parent), *arguments]


def main(arguments: list[str]) -> None:
    """With `ROOT`, serve the jobs below it; with `--one DIR`, run one job."""
    if arguments[0] == "--one":
        sys.exit(wrapper.main(Path(arguments[1]).resolve()))
    serve(Path(arguments[0]).resolve())


def serve(root: Path) -> None:
    """Fork a runner for each tag on stdin until it is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    with os.fdopen(os.dup(0), "rb") as asked:
        for line in asked:
            tag = line.decode().strip()
            try:
                pid = os.fork()
            except OSError:
                pid = -1  # no process available
            if pid == 0:
                _run(root / tag)
            try:
                os.write(1, f"{tag} {pid}\n".encode())
            except BrokenPipeError:
                return


def _run(directory: Path) -> None:
    """Become a runner; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 256)
        code = wrapper.main(directory)
    except BaseException:  # last resort: leave the traceback for the agent
        (directory / "runner.log").write_text(traceback.format_exc())
    finally:
        os._exit(code)
