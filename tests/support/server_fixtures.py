"""Fixtures of tests with real servers, for the conftest of each folder of such tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Postgres, running_postgres
from tests.support.server_process import ServerProcess, a_server_process


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL for the whole run."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on SQLite."""
    with a_server_process(tmp_path) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def server_on_each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on each of the databases."""
    if request.param == "sqlite":
        with a_server_process(tmp_path) as running:
            yield running
    else:
        server: Postgres = request.getfixturevalue("postgres")
        with a_server_process(tmp_path, db=server.new_database()) as running:
            yield running
