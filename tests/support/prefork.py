"""Servers that start quickly, because they are forked from a process that has imported all modules.

Such a server is a normal process with its own files, port and log. It saves only the second that Python takes for
imports, so that a test can kill and restart it hundreds of times.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tests.support.server_process import ServerProcess

MODULES = (
    "rainbow_sched.cli.commands.server",
    "rainbow_sched.server.main",
    "rainbow_sched.graphs.memory",
    "rainbow_sched.store.sqlite",
    "uvloop",
)


@dataclass
class ForkedServer(ServerProcess):
    """A server whose starts and kills take a fraction of a second."""

    pid: int | None = None
    parent: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        environment = self.environment() | {"GRPC_ENABLE_FORK_SUPPORT": "0", "OPENBLAS_NUM_THREADS": "1"}
        self.parent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.prefork"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *, timeout: float = 30.0) -> None:
        """Fork one, and return when its port is open."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        command = ["server", "--listen", self.address, "--data-dir", str(self.folder / "data"), *self.arguments]
        self.parent.stdin.write(json.dumps({"arguments": command, "log": str(self.folder / "server.log")}) + "\n")
        self.parent.stdin.flush()
        self.pid = int(self.parent.stdout.readline())
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if not self._lives():
                break
            time.sleep(0.005)
        raise AssertionError(f"the server did not open its port:\n{self.log[-4000:]}")

    def lives(self, seconds: float) -> None:
        """Let so much time pass; fail if it ends by itself."""
        time.sleep(seconds)
        assert self._lives(), self.log[-4000:]

    def kill(self) -> None:
        """End it as a power cut would; return when it is gone."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            while self._lives():
                time.sleep(0.002)
            self.pid = None

    def _lives(self) -> bool:
        return self.pid is not None and Path(f"/proc/{self.pid}").exists()


@contextlib.contextmanager
def a_forked_server(folder: Path) -> Iterator[ForkedServer]:
    """A running server that ends with the block."""
    server = ForkedServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        server.parent.communicate()


def _child(told: dict[str, object]) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(str(told["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for theirs, ours in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(theirs, ours)
    from rainbow_sched.cli.main import run

    arguments = told["arguments"]
    assert isinstance(arguments, list)
    return run(arguments)


def _serve() -> None:
    for name in MODULES:
        with contextlib.suppress(ImportError):  # uvloop may be absent
            import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are buried at once
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = _child(json.loads(line))
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    _serve()
