"""Real Slurm clusters for the tests of the Slurm backend: one with a single node for the common suite, one richer."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from tests.support.backends import Desk, a_graph, leave
from tests.support.slurm import Nodes, SlurmCluster, running

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def small() -> Iterator[SlurmCluster]:
    """One node of the shape that the common suite expects."""
    yield from running(SlurmCluster("small", [Nodes(prefix="n", first=0, count=1, cpus=2, memory=512)]))


@pytest.fixture(scope="session")
def rich() -> Iterator[SlurmCluster]:
    """Plain nodes with features, nodes with gpus and hardware threads, two partitions."""
    if os.geteuid() != 0:
        pytest.skip("optional: the gpus of a test cluster are device files, which need root")
    layout = "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
    yield from running(
        SlurmCluster(
            "rich",
            [
                Nodes(prefix="a", count=3, cpus=4, features=("avx2", "ib")),
                Nodes(prefix="g", count=2, gpus=2, gpu_type="a100", layout=layout, memory=16000, features=("a100",)),
            ],
            {"main": "", "gpu": "g"},
        )
    )


@pytest.fixture
async def desk(small: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    """The desk of the common suite, with a real Slurm behind it."""
    settings = BackendSettings(
        cluster=f"here-{next(_NUMBERS)}",  # every test submits the same tags, and Slurm remembers those of the last one
        directory=tmp_path / "state",
        graph=a_graph(),
        options={"conf": str(small.conf), "interval": "0.3", "facts_interval": "0", "bid_kept": "0"},
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    await leave(desk)
