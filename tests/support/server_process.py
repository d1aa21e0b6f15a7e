"""A real server process with its own folder, for end-to-end tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc

SECRET = "a-registration-secret-for-tests"
RAINBOW = [sys.executable, "-c", "from rainbow_sched.cli.main import main; main()"]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class ServerProcess:
    """One server: its folder, its address, and the process that runs it."""

    folder: Path
    db: str = ""
    port: int = field(default_factory=free_port)
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    program: tuple[str, ...] = tuple(RAINBOW)  # what starts the server

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def admin_token(self) -> str:
        """Return the administrator's token that the first start wrote."""
        return (self.folder / "data/admin.token").read_text().strip()

    @property
    def log(self) -> str:
        """Return the content of the log."""
        return (self.folder / "server.log").read_text(errors="replace")

    def environment(self) -> dict[str, str]:
        """Return an environment that is independent of the user's."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("RAINBOW_")}
        home = str(self.folder / "home")
        return {
            **kept,
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "RAINBOW_REGISTRATION_SECRET": SECRET,
        }

    def start(self, *, timeout: float = 30.0) -> None:
        """Start it and return when its port is open: then it can serve."""
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        command = [*self.program, "server", "--listen", self.address, "--data-dir", str(self.folder / "data")]
        if self.db:
            command += ["--db", self.db]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.arguments], env=self.environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.wait_open(timeout)

    def wait_open(self, timeout: float = 30.0) -> None:
        """Return when the port is open; fail with the log if the process ends first."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log[-4000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
        raise AssertionError(f"the server did not open its port in {timeout} s:\n{self.log[-4000:]}")

    def lives(self, seconds: float) -> None:
        """Wait; fail if the server ends meanwhile."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(seconds)
            raise AssertionError(f"the server ended with {code}:\n{self.log[-4000:]}")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Stop it with SIGTERM; return its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop on SIGTERM:\n{self.log[-4000:]}") from None

    def run(
        self, *arguments: str, token: str | None = None, check: bool = True, timeout: float = 60.0, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `rainbow` against this server; `token` defaults to the administrator's."""
        environment = self.environment() | {"RAINBOW_SERVER": self.address} | extra
        environment["RAINBOW_TOKEN"] = self.admin_token if token is None else token
        done = subprocess.run(  # noqa: PLW1510 - checked below, with the output
            [*RAINBOW, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"rainbow {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def channel(self) -> grpc.Channel:
        """A plain channel to it."""
        return grpc.insecure_channel(self.address)


@contextlib.contextmanager
def a_server_process(
    folder: Path, *, db: str = "", arguments: tuple[str, ...] = (), program: tuple[str, ...] = tuple(RAINBOW)
) -> Iterator[ServerProcess]:
    """A running server that ends with the block."""
    server = ServerProcess(folder, db=db, arguments=arguments, program=program)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
