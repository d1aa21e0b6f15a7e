"""The desk of the common suite, with a directory queue behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from tests.support.backends import CORES, Desk, a_graph, leave
from tests.support.directory_queue import DirectoryQueue
from tests.support.directory_queue.backend import make


@pytest.fixture
def manager(tmp_path: Path) -> DirectoryQueue:
    """One node of the shape that the common suite expects."""
    return DirectoryQueue(tmp_path / "queue", {"n0": CORES})


@pytest.fixture
async def desk(manager: DirectoryQueue, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster="here", directory=tmp_path / "state", graph=a_graph(), options={"home": str(manager.home)}
    )
    desk = Desk(lambda: make(settings), tmp_path)
    await desk.backend.start()
    yield desk
    await leave(desk)
