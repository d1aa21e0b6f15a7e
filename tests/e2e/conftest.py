"""Fixtures of the end-to-end tests: real servers on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.house import House, a_house
from tests.support.postgres import a_database


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server on SQLite."""
    with a_house(tmp_path) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def house_on_each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A server on each of the databases."""
    if request.param == "sqlite":
        with a_house(tmp_path) as running:
            yield running
    else:
        with a_database() as url, a_house(tmp_path, db=url) as running:
            yield running
