"""A real server in its own process for the benchmarks, and an echo server as a baseline."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc import aio

from tests.support.server_process import ServerProcess

ECHO = "/bench.Echo/Echo"
OPTIONS = (("grpc.so_reuseport", 0),)


@dataclass
class Process:
    """The address and resource usage of a process that listens on a port."""

    address: str
    pid: int
    token: str = ""

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()


@contextlib.contextmanager
def a_server() -> Iterator[tuple[ServerProcess, Process]]:
    """Run a Rainbow server on SQLite."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as folder:
        server = ServerProcess(Path(folder), arguments=("--policy", "random", "--log-level", "warning"))
        server.start()
        assert server.process is not None
        try:
            yield server, Process(server.address, server.process.pid, server.admin_token)
        finally:
            server.stop()


@contextlib.contextmanager
def an_echo() -> Iterator[Process]:
    """Run a gRPC server whose one method returns its request."""
    process = subprocess.Popen([sys.executable, "-m", "bench._server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield Process(address, process.pid)
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


async def _echo(request: bytes, context: object) -> bytes:
    return request


async def _serve_echo() -> None:
    server = aio.server(options=OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve_echo())
    else:
        uvloop.run(_serve_echo())
