"""Shapes, names, states and bids of a richer Slurm cluster, as its users would meet them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.base import Prices
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.finder import discover_cluster
from rainbow_sched.discovery.slurm import SHOW_NODES, parse_nodes, slurm_graph
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.request import Equals, Request, Requirement, Task
from tests.support.backends import Desk
from tests.support.slurm import SlurmCluster


@pytest.fixture
async def desk(rich: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster=tmp_path.name.replace("_", "-"),
        directory=tmp_path / "state",
        graph=slurm_graph("rich", parse_nodes(rich.call(*SHOW_NODES))),
        prices=Prices(core_hour=0.1, gpu_hour=2.0),
        options={
            "conf": str(rich.conf),
            "interval": "0.3",
            "facts_interval": "0",
            "bid_kept": "0",
            "partition.accelerated": "gpu",
        },
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        await desk.backend.cancel(update.tag)
        await desk.until(update.tag, Phase.ENDED)


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("sh", "-c", text), **flags))


async def test_tasks_are_spread_over_distinct_nodes(desk: Desk):
    update = await desk.run(sh("echo $SLURMD_NODENAME $RAINBOW_TASK_RANK", nodes=3, tasks=3, cores_per_task=2))
    lines = (await desk.out(update.tag)).decode().split("\n")[:-1]
    assert len({line.split()[0] for line in lines}) == 3
    assert sorted(line.split()[1] for line in lines) == ["0", "1", "2"]


async def test_cores_are_cores_even_where_slurm_counts_threads(desk: Desk, rich: SlurmCluster):
    request = replace(sh("sleep 60", tasks=1, cores_per_task=4), hosts=("g1",))
    tag = await desk.submit(request)
    await desk.until(tag, Phase.RUNNING)
    assert "CPUAlloc=8 " in rich.call("scontrol", "-o", "show", "node", "g1")


async def test_a_gpu_is_given_and_seen(desk: Desk):
    update = await desk.run(sh("echo gpu:$CUDA_VISIBLE_DEVICES", tasks=1, gpus_per_task=1))
    assert await desk.out(update.tag) in (b"gpu:0\n", b"gpu:1\n")


async def test_a_feature_a_partition_and_hosts_decide_where_it_runs(desk: Desk):
    where = sh("echo $SLURMD_NODENAME $SLURM_JOB_PARTITION")
    by_feature = replace(where, properties=("ib",))
    by_partition = replace(where, options={"queue": "accelerated"})  # Flux's word, and a name that the site maps
    by_host = replace(where, hosts=("a2", "a3"), not_hosts=("a2",))
    by_requirement = replace(where, requires=(Requirement("partitions", (Equals("name", "gpu"),)),))
    places = []
    for job, request in enumerate((by_feature, by_partition, by_host, by_requirement), start=1):
        update = await desk.run(request, job=job)
        places.append((await desk.out(update.tag)).decode().split())
    assert places[0][0].startswith("a")
    assert places[1][1] == "gpu"
    assert places[2][0] == "a3"
    assert places[3][1] == "gpu"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (replace(sh("true"), options={"partition": "nope"}), "no partition 'nope'"),
        (replace(sh("true"), properties=("h100",)), "'h100'"),
        (replace(sh("true"), options={"extra": "--uid=0"}), "does not allow --uid"),
        (replace(sh("true"), options={"extra": "--wrap=rm"}), "does not allow --wrap"),
        (sh("true", nodes=1, tasks=1, gpus_per_node=3), "3 gpu"),
        (sh("true", nodes=4, tasks=4, cores_per_task=6), "6 core"),
        (replace(sh("true"), image="docker://x"), "container"),
        (replace(sh("true"), environment={"A-B": "1"}), "A-B"),
        (replace(sh("true"), tasks=(Task(command=("a",)), Task(command=("b",)))), "one task"),
        (replace(sh("true"), hosts=("z9",)), "no node"),
    ],
)
async def test_what_slurm_cannot_do_is_refused_with_the_reason(desk: Desk, request_: Request, reason: str):
    assert reason in (await desk.backend.check(request_) or "")


async def test_a_drained_node_is_marked_and_comes_back(desk: Desk, rich: SlurmCluster):
    assert (await desk.backend.facts()).marks == {}
    rich.call("scontrol", "update", "nodename=a2", "state=drain", "reason=State=IDLE")
    try:
        assert (await desk.backend.facts()).marks == {"a2": "drained"}
        await desk.again()
    finally:
        rich.call("scontrol", "update", "nodename=a2", "state=resume")
    async with asyncio.timeout(20):
        while (await desk.backend.facts()).marks != {"a2": "up"}:  # for a moment it does not answer its controller
            await asyncio.sleep(0.1)


async def test_without_the_registered_graph_nothing_is_said_of_its_vertices(desk: Desk, rich: SlurmCluster):
    blind = SlurmBackend(replace(desk.backend.settings, graph=None))
    await blind.start()
    facts = await blind.facts()
    assert (facts.marks, facts.used, facts.state["nodes_free"]) == ({}, None, 5)


async def test_what_others_use_is_told_and_what_we_use_is_not(desk: Desk, rich: SlurmCluster):
    other = rich.call("sbatch", "--parsable", "-o", "/dev/null", "-w", "a1", "-c3", "--mem=1000", "--wrap=sleep 60")
    mine = replace(sh("sleep 60", tasks=1, cores_per_task=2, memory="2G"), hosts=("g2",))
    tag = await desk.submit(mine)
    await desk.until(tag, Phase.RUNNING)
    async with asyncio.timeout(20):
        while (await desk.backend.facts()).used != {"a1/core": 3, "a1/memory": 1000}:
            await asyncio.sleep(0.1)  # Slurm tells nobody when a job starts
    facts = await desk.backend.facts()
    assert facts.state["nodes_free"] == 3
    assert facts.state["cores_free"] == 3 * 4 + 2 * 8 - 3 - 2
    rich.call("scancel", other.strip())


async def test_a_bid_counts_the_queue_and_costs_what_it_takes(desk: Desk):
    whole = replace(sh("sleep 60", nodes=5, tasks=5), duration=600.0)
    await desk.until(await desk.submit(whole, job=1), Phase.RUNNING)
    request = replace(sh("true", nodes=5, tasks=5), duration=3600.0)
    alone = await desk.backend.bid(replace(sh("true", tasks=2, gpus_per_task=1), duration=3600.0))
    assert alone.cost == pytest.approx(2 * 0.1 + 2 * 2.0)
    first = await desk.backend.bid(replace(request, groups=sh("true", nodes=5, exclusive=True).groups))
    assert first.yes
    assert 500 < first.start_p50 <= 660


def test_the_machine_or_its_manager_is_found_and_software_is_added(rich: SlurmCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURM_CONF", str(rich.conf))
    monkeypatch.delenv("FLUX_URI", raising=False)
    found = discover_cluster("rich", "auto")
    assert (found.manager, found.graph.names[0]) == ("slurm", "rich")
    assert {"features", "partitions", "gpus"} <= {one.name for one in found.subsystems}
    with pytest.raises(NotFound, match="there are: auto, host, slurm, flux"):
        discover_cluster("rich", "pbs")
