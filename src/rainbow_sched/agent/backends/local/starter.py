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

_SERVE = "from rainbow_sched.agent.backends.local.starter import serve; serve(sys.argv[2])"
_BEGIN = f"import sys; sys.path.append(sys.argv[1]); {_SERVE}"


def words(root: str) -> list[str]:
    """Return the command of the starter of the jobs below `root`, independent of the environment."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN, str(Path(rainbow_sched.__file__).parent.parent), root]


def serve(directory: str) -> None:
    """Fork a runner for each tag on stdin until it is closed."""
    root = Path(directory).resolve()
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
