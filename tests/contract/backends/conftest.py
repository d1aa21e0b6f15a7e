"""What the suite of backends runs on: each backend with a graph of known shape."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings, load_backend
from tests.support.backends import Desk, a_graph, leave

BACKENDS = ["local"]


@pytest.fixture(params=BACKENDS)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(cluster="here", directory=tmp_path / "state", graph=a_graph())
    made = load_backend(request.param)
    desk = Desk(lambda: made(settings), tmp_path)
    await desk.backend.start()
    yield desk
    await leave(desk)
