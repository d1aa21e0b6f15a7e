"""Unlike nodes and narrow partitions: what fits is sent where it runs, what never would is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.slurm import SHOW_NODES, parse_nodes, slurm_graph
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.request import Request
from tests.support.backends import Desk, a_launch
from tests.support.slurm import Nodes, SlurmCluster, running

_PARTITIONS = """\
PartitionName=short Nodes=a1,a2 MaxTime=5 State=UP
PartitionName=pairs Nodes=a1,a2 MinNodes=2 State=UP
PartitionName=single Nodes=a1,a2 MaxNodes=1 State=UP
PartitionName=shut Nodes=d1 State=DOWN
PartitionName=paid Nodes=a1 AllowAccounts=phys State=UP
PartitionName=shared Nodes=a1 OverSubscribe=FORCE:2 State=UP
PartitionName=whole Nodes=a2 OverSubscribe=EXCLUSIVE State=UP
PartitionName=hidden Nodes=a2 Hidden=YES State=UP
"""


@pytest.fixture(scope="module")
def narrow() -> Iterator[SlurmCluster]:
    nodes = [
        Nodes(prefix="a", count=2, cpus=4),
        Nodes(prefix="b", count=1, layout="Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"),
        Nodes(prefix="d", count=1, cpus=2),
    ]
    yield from running(SlurmCluster("narrow", nodes, {"main": "a", "threads": "b"}, settings=_PARTITIONS))


@pytest.fixture
async def desk(narrow: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster=tmp_path.name.replace("_", "-"),
        directory=tmp_path / "state",
        graph=slurm_graph("narrow", parse_nodes(narrow.call(*SHOW_NODES))),
        options={"conf": str(narrow.conf), "interval": "0.3", "facts_interval": "0"},
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)


def sh(text: str, duration: float | None = None, **flags: object) -> Request:
    return replace(request_from_flags(Flags(command=("sh", "-c", text), **flags)), duration=duration)


async def test_a_job_too_large_for_the_default_partition_runs_in_another(desk: Desk):
    update = await desk.run(sh("echo $SLURM_JOB_PARTITION $SLURMD_NODENAME", cores_per_task=8))
    assert (await desk.out(update.tag)).split() == [b"threads", b"b1"]


@pytest.mark.parametrize(
    ("partition", "flags", "reason"),
    [
        ("short", {"duration": 600.0}, "5 min at most"),
        ("single", {"nodes": 2, "tasks": 2}, "1 nodes at most"),
        ("pairs", {"nodes": 1}, "2 nodes at least"),
        ("shut", {}, "is not available"),
        ("paid", {}, "accounts phys"),
        ("main", {"cores_per_task": 8}, "in partition main"),
    ],
)
async def test_what_slurm_would_leave_waiting_for_ever_is_refused(
    desk: Desk, partition: str, flags: dict[str, object], reason: str
):
    request = replace(sh("true", **flags), options={"partition": partition})
    assert reason in (await desk.backend.check(request) or "")
    assert not (await desk.backend.bid(request)).yes


@pytest.mark.parametrize("partition", ["short", "shared", "hidden", "single"])
async def test_every_partition_that_can_be_used_runs_jobs(desk: Desk, partition: str):
    update = await desk.run(replace(sh("echo $SLURM_JOB_PARTITION"), options={"partition": partition}))
    assert update.result.state is AttemptState.SUCCEEDED
    assert (await desk.out(update.tag)).decode().strip() == partition


async def test_a_node_of_closed_partitions_is_drained_until_one_opens(desk: Desk, narrow: SlurmCluster):
    assert (await desk.backend.facts()).marks == {"d1": "drained"}
    narrow.call("scontrol", "update", "partitionname=shut", "state=up")
    try:
        assert (await desk.backend.facts()).marks == {"d1": "up"}
        update = await desk.run(replace(sh("true"), options={"partition": "shut"}))
        assert update.result.state is AttemptState.SUCCEEDED
    finally:
        narrow.call("scontrol", "update", "partitionname=shut", "state=down")


async def test_two_jobs_share_the_cores_of_a_partition_that_allows_it(desk: Desk, narrow: SlurmCluster):
    request = replace(sh("sleep 60", cores_per_task=4), options={"partition": "shared"})
    for job in (1, 2):
        await desk.backend.submit(a_launch(request, job=job))
    for job in (1, 2):
        await desk.until(f"rb-{job}-1", Phase.RUNNING)
    used = (await desk.backend.facts()).used
    assert "a1/core" not in used, "both are ours"


async def test_what_slurm_gives_beyond_what_was_asked_is_in_use(desk: Desk):
    request = replace(sh("sleep 60", memory="512M", nodes=1, tasks=1), options={"partition": "whole"})
    await desk.backend.submit(a_launch(request))
    await desk.until("rb-1-1", Phase.RUNNING)
    await desk.backend.poll()
    assert (await desk.backend.facts()).used == {"a2/core": 3}
