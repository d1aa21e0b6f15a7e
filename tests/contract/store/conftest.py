"""Every test that asks for `store` or `url` runs on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rainbow_sched.store import Store, open_store
from tests.support.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rainbow.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture(scope="session")
def shared_database(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store. On PostgreSQL it is one database, emptied for each test; `url` is a new one."""
    if request.param == "sqlite":
        url = str(request.getfixturevalue("sqlite_url"))
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty(request.getfixturevalue("shared_database"))
    opened = await open_store(url)
    yield opened
    await opened.close()
