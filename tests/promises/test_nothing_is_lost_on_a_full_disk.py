"""On a full disk submits are refused with the reason and reads work; the server recovers when there is space."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import pytest

from tests.support.calls import Calls
from tests.support.fleet import Fleet, a_fleet

pytestmark = pytest.mark.timeout(120)
ROUNDS = int(os.environ.get("RAINBOW_DISK_ROUNDS", "2"))
ENOUGH = 4000


class Disk(Protocol):
    """Where the server's data lies."""

    def fill(self, fleet: Fleet) -> None:
        """Fill the disk."""

    def free(self, fleet: Fleet) -> None:
        """Free the space."""


@dataclass
class SmallDisk:
    """A file system of its own of a few megabytes, which something else fills up."""

    folder: Path

    def fill(self, fleet: Fleet) -> None:
        with contextlib.suppress(OSError), (self.folder / "something-else").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))

    def free(self, fleet: Fleet) -> None:
        (self.folder / "something-else").unlink()


@dataclass
class ShortFiles:
    """No file of the server may grow any more: no rights are needed for that."""

    folder: Path

    def fill(self, fleet: Fleet) -> None:
        most = max(path.stat().st_size for path in self.folder.iterdir())
        self._limit(fleet, most)

    def free(self, fleet: Fleet) -> None:
        self._limit(fleet, resource.RLIM_INFINITY)

    def _limit(self, fleet: Fleet, size: int) -> None:
        assert fleet.server.process is not None
        resource.prlimit(fleet.server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextlib.contextmanager
def a_small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mounted for the length of a block; only root can."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("optional: only root can mount a small disk; the same is tested with short files")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=["a small disk", "short files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "short files":
        yield ShortFiles(tmp_path / "data")
    else:
        with a_small_disk(tmp_path / "data") as mounted:
            yield mounted


def test_nothing_acknowledged_is_lost_on_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    with a_fleet(tmp_path) as fleet, fleet.server.channel() as channel:
        calls = Calls(channel, fleet.server.admin_token)
        fleet.add("east")
        acked, refused = set(), 0
        for number in range(ROUNDS):
            gate = tmp_path / f"gate{number}"
            running = fleet.submit("east", gate=gate, code=number)
            fleet.until_running(running)
            acked |= {calls.submit(token=f"before-{number}-{i}", name="small", nodes=5000).id for i in range(20)}
            disk.fill(fleet)
            refusal = _submit_until_refused(calls, acked, number)
            refused += 1
            assert refusal.code() is grpc.StatusCode.UNAVAILABLE
            assert "the database" in (refusal.details() or "")
            # Reads are answered, and the end of a job that runs is not lost though it cannot be stored now.
            assert acked <= {job.id for job in calls.listed()}
            assert fleet.client.job(running).attempt_state == "running"
            assert fleet.client.cluster("east").standing == "active"
            gate.touch()
            fleet.agents["east"].lives(0.3)
            disk.free(fleet)
            acked.add(calls.submit(token=f"after-{number}", name="small", nodes=5000).id)
            counts = fleet.counts({running: number, fleet.submit("east", code=1): 1})
            counts.check()
        fleet.server.kill()
        fleet.server.start()
        stored = {job.id for job in fleet.client.jobs(limit=100_000)}
        assert "Traceback" not in fleet.server.log
    print(f"{ROUNDS} full disks: {len(acked)} acknowledged, {refused} refused, {len(acked - stored)} lost")
    assert acked <= stored


def _submit_until_refused(calls: Calls, acked: set[int], number: int) -> grpc.RpcError:
    """Submit jobs that never start, until one is refused."""
    for i in range(ENOUGH):
        try:
            acked.add(calls.submit(token=f"{number}-{i}", name="x" * 100, nodes=5000).id)
        except grpc.RpcError as error:
            return error
    raise AssertionError(f"{ENOUGH} jobs were taken on a full disk")
