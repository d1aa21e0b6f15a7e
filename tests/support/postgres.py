"""A real PostgreSQL server for tests: started in a folder of its own, ended with the process that started it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

START_SECONDS = 30.0
# Ends the server, as in a crash, when its input is closed: by `crash`, or by the end of the tests, however they end.
_SUPERVISE = 'exec 3<&0; "$@" </dev/null 3<&- & read _ <&3; kill -QUIT $!; wait'
_AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200", "shared_buffers": "64MB"}


class Missing(RuntimeError):
    """No PostgreSQL server is installed here."""


def binaries() -> Path:
    """The folder of the newest installed server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is None:
        raise Missing("no PostgreSQL server is installed; run tools/install-real-parts")
    return Path(on_path).parent


class Postgres:
    """One server on a free port of this machine."""

    def __init__(self) -> None:
        self._bin = binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="rainbow-pg-"))
        self._folder.chmod(0o755)  # the server may run as another user
        self._data = self._folder / "data"
        # By a program and not by Popen(user=...), which forks: that is not safe beside gRPC's threads.
        self._as_user = _AS_POSTGRES if os.getuid() == 0 else ()
        self._names = (f"t{n}" for n in itertools.count())
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def create(self) -> None:
        """Make its files, once."""
        self._data.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(self._data, "postgres", "postgres")
            shutil.chown(self._folder, "postgres", "postgres")
        subprocess.run(
            [
                *self._as_user,
                self._bin / "initdb",
                "-D",
                self._data,
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C",
                "-N",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
        )

    def start(self) -> None:
        """Run it; returns when it answers."""
        settings = {**_SETTINGS, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self._folder)}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._as_user,
                    "/bin/sh",
                    "-c",
                    _SUPERVISE,
                    "sh",
                    self._bin / "postgres",
                    "-D",
                    self._data,
                    "-p",
                    str(self.port),
                    *options,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "log").read_text()) from None
                time.sleep(0.02)  # there is no event to wait for: another process opens its port

    def crash(self) -> None:
        """End it at once, in no good order."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(START_SECONDS)
            self._process = None

    def remove(self) -> None:
        """End it and delete its files."""
        self.crash()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = next(self._names)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def empty(self, url: str) -> str:
        """The same database with nothing in its tables; much quicker than a new one."""
        with psycopg.connect(url, autocommit=True) as connection:
            tables = connection.execute(
                "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables "
                "WHERE schemaname = 'public' AND tablename <> 'schema_versions'"
            ).fetchone()
            if tables is not None and tables[0]:
                connection.execute(f"TRUNCATE {tables[0]}")
        return url


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server for the length of a block. Without one installed the tests skip, but never in CI."""
    try:
        server = Postgres()
    except Missing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"SKIPPED, NOT TESTED: {missing}")
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()
