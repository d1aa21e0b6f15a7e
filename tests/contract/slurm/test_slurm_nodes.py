"""Jobs run on the nodes that they are bound to: judged by what a real Slurm gave them, not by what it was told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from rainbow_sched.agent.core.values import JobFound, Phase
from rainbow_sched.discovery.slurm import SHOW_NODES, parse_nodes, slurm_graph
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement
from rainbow_sched.protocol.messages import AllowedHosts
from tests.support.backends import Desk
from tests.support.slurm import SlurmCluster

ALL = ("a1", "a2", "a3", "g1", "g2")
RACKS = {"a1": "r1", "a2": "r2", "a3": "r1", "g1": "r2", "g2": "r2"}
WHERE = "echo $SLURM_JOB_NODELIST"
NVME = Requirement("io", (Equals("kind", "nvme"),))  # on a subsystem that Slurm knows nothing of
_FIELD = re.compile(r"(\w+)=(\S*)")


@pytest.fixture
async def desk(rich: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    async for made in a_desk(rich, tmp_path, {}):
        yield made


@pytest.fixture
async def racked(rich: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    """The same nodes in racks of which Slurm knows nothing: the graph was registered by hand."""
    async for made in a_desk(rich, tmp_path, RACKS):
        yield made


async def a_desk(rich: SlurmCluster, tmp_path: Path, racks: dict[str, str]) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster=re.sub(r"[^a-z0-9]+", "-", tmp_path.name).strip("-"),
        directory=tmp_path / "state",
        graph=slurm_graph("rich", parse_nodes(rich.call(*SHOW_NODES)), racks),
        options={
            "conf": str(rich.conf),
            "interval": "0.3",
            "facts_interval": "0",
            "bid_kept": "0",
            "allow_extra": "exclude,nodelist",
        },
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("sh", "-c", text), **flags))


def bound(*hosts: str) -> AllowedHosts:
    return AllowedHosts((GroupHosts(0, hosts),), checked=True)


def requiring(request: Request, *requires: Requirement) -> Request:
    """The same with requirements on each node."""
    levels = tuple(replace(level, requires=requires) for level in request.groups[0].levels)
    return replace(request, groups=(Group(levels=levels),))


def allocation(rich: SlurmCluster, native: str) -> dict[str, str]:
    """What Slurm itself says of a job."""
    return dict(_FIELD.findall(rich.call("scontrol", "-o", "show", "job", native)))


@pytest.mark.parametrize("hosts", [("a3",), ("a2", "g2")], ids=",".join)
async def test_sixteen_jobs_run_on_the_nodes_that_meet_their_requirement(desk: Desk, hosts: tuple[str, ...]):
    request = requiring(sh(WHERE), NVME)
    tags = [await desk.submit(request, job=job, allowed=bound(*hosts)) for job in range(1, 17)]
    updates = [await desk.until(tag, Phase.ENDED) for tag in tags]
    assert {update.result.state for update in updates} == {AttemptState.SUCCEEDED}
    ran = [(await desk.out(tag)).decode().strip() for tag in tags]
    assert set(ran) <= set(hosts)
    assert [update.nodes for update in updates] == ran


async def test_a_job_reports_its_nodes_while_it_runs_and_a_new_agent_finds_them(desk: Desk):
    tag = await desk.submit(sh("sleep 60", nodes=2, tasks=2), allowed=bound("a1", "a3"))
    assert (await desk.until(tag, Phase.RUNNING)).nodes == "a[1,3]"
    await desk.again()
    found = await desk.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert found.update.nodes == "a[1,3]"


@pytest.mark.parametrize(
    ("request_", "hosts", "expected"),
    [
        (sh(WHERE, nodes=2, tasks=2), ("a1", "a3", "g2"), {"a1", "a3", "g2"}),
        (sh(WHERE, nodes=3, tasks=3), ("a2", "g1", "g2"), {"a2", "g1", "g2"}),
        (sh(WHERE, nodes=2, exclusive=True), ("a2", "a3", "g2"), {"a2", "a3", "g2"}),
        (sh(WHERE, tasks=1, gpus_per_task=1), ("a1", "g2"), {"g2"}),
        (sh(WHERE, tasks=1, memory="10G"), ("a2", "g1"), {"g1"}),
        (sh(WHERE, tasks=6, cores_per_task=1), ("a2", "a3"), {"a2", "a3"}),
        (replace(sh(WHERE), hosts=("a1", "a2")), ("a2", "a3"), {"a2"}),
        (replace(sh(WHERE), not_hosts=("a1", "g1")), ("a1", "g1", "a3"), {"a3"}),
        (replace(sh(WHERE), properties=("a100",)), ("a1", "g2"), {"g2"}),
        (replace(sh(WHERE), properties=("fast",)), ("g1",), {"g1"}),  # a property that Slurm knows nothing of
        (replace(sh(WHERE), options={"partition": "gpu"}), ("a1", "a2", "g2"), {"g2"}),
        (replace(sh(WHERE), options={"extra": "--exclude=a1,g1"}), ("a1", "a3", "g1"), {"a3"}),
        (replace(sh(WHERE, nodes=2, tasks=2), options={"extra": "--nodelist=a2"}), ("a2", "a3"), {"a2", "a3"}),
        (requiring(sh(WHERE), NVME, Requirement("features", (Equals("name", "ib"),))), ("a2", "g1"), {"a2"}),
    ],
)
async def test_the_allowed_hosts_are_joined_with_what_else_the_job_asks_for(
    desk: Desk, rich: SlurmCluster, request_: Request, hosts: tuple[str, ...], expected: set[str]
):
    update = await desk.run(request_, allowed=bound(*hosts))
    assert update.result.state is AttemptState.SUCCEEDED
    got = set(expand((await desk.out(update.tag)).decode().split()[0]))
    assert got <= expected
    assert got == set(expand(allocation(rich, update.native)["NodeList"]))


async def test_random_jobs_get_what_they_ask_for_on_the_hosts_that_are_allowed(desk: Desk, rich: SlurmCluster):
    """The oracle is the allocation as Slurm shows it."""
    rng = Random(20261118)
    cases = []
    while len(cases) < 24:
        hosts = tuple(sorted(rng.sample(ALL, rng.randint(1, 4))))
        count, cores = rng.randint(1, 3), rng.randint(1, 4)
        gpus = rng.choice((0, 0, 0, 1))
        inside = [Level(type="core", count=Count(cores)), *([Level(type="gpu", count=Count(gpus))] if gpus else [])]
        inside += [Level(type="memory", count=Count(rng.choice((200, 4000))), unit="MiB")]
        level = Level(
            type="node", count=Count(count), exclusive=rng.random() < 0.2, requires=(NVME,), inside=tuple(inside)
        )
        request = replace(sh("true"), groups=(Group(levels=(level,)),))
        fit = [host for host in hosts if not gpus or host.startswith("g")]
        reason = await desk.backend.check(request, bound(*hosts))
        assert (reason is None) == (len(fit) >= count), (hosts, count, cores, gpus, reason)
        if reason is None:
            cases.append((hosts, count, cores, gpus, level.exclusive, request))
    tags = [await desk.submit(case[-1], job=job, allowed=bound(*case[0])) for job, case in enumerate(cases, start=1)]
    for tag, (hosts, count, cores, gpus, exclusive, _) in zip(tags, cases, strict=True):
        update = await desk.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED, update.result
        told = allocation(rich, update.native)
        nodes = expand(told["NodeList"])
        assert set(nodes) <= set(hosts)
        assert len(nodes) == count
        assert int(told["NumCPUs"]) >= count * cores
        assert (told["OverSubscribe"] == "NO") is exclusive
        assert not gpus or f"gres:gpu:{gpus}" in told["TresPerNode"]


def in_one_rack(count: int, *requires: Requirement) -> Request:
    node = Level(type="node", count=Count(count), inside=(Level(type="core", count=Count(2)),), requires=requires)
    return replace(sh(WHERE), groups=(Group(levels=(Level(type="rack", inside=(node,)),)),))


@pytest.mark.parametrize(
    ("request_", "hosts", "racks"),
    [
        (in_one_rack(1), ALL, {"r1", "r2"}),
        (in_one_rack(2), ALL, {"r1", "r2"}),
        (in_one_rack(3), ALL, {"r2"}),
        (in_one_rack(2, NVME), ("a1", "a2", "g2"), {"r2"}),
        (replace(in_one_rack(2), not_hosts=("g1", "g2")), ALL, {"r1"}),
        (replace(in_one_rack(2), options={"partition": "gpu"}), ALL, {"r2"}),
    ],
)
async def test_nodes_of_one_rack_lie_in_one_rack(
    racked: Desk, rich: SlurmCluster, request_: Request, hosts: tuple[str, ...], racks: set[str]
):
    tags = [await racked.submit(request_, job=job, allowed=bound(*hosts)) for job in range(1, 7)]
    for tag in tags:
        update = await racked.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED, update.result
        got = expand(allocation(rich, update.native)["NodeList"])
        assert len({RACKS[name] for name in got}) == 1
        assert {RACKS[name] for name in got} <= racks
        assert set(got) <= set(hosts)


async def test_more_nodes_than_any_rack_has_are_refused(racked: Desk):
    reason = await racked.backend.check(in_one_rack(4), AllowedHosts(checked=True))
    assert "no single rack can run it: 4 nodes" in reason


async def test_a_partition_of_the_users_own_beside_one_that_is_required_is_not_dropped(desk: Desk):
    wants_gpu = requiring(sh(WHERE), Requirement("partitions", (Equals("name", "gpu"),)))
    refused = await desk.backend.check(replace(wants_gpu, options={"partition": "main"}), bound("g1", "g2"))
    assert "a job runs in one partition, not in main and gpu" in refused
    named = replace(sh(WHERE), properties=("gpu",), options={"queue": "main"})
    assert "not in main and gpu" in await desk.backend.check(named, bound("g1", "g2"))
    update = await desk.run(replace(wants_gpu, options={"partition": "main,gpu"}), allowed=bound("g1", "g2"))
    assert update.result.state is AttemptState.SUCCEEDED


async def updated(desk: Desk, rich: SlurmCluster, request: Request, hosts: tuple[str, ...], *changes: str) -> str:
    """Submit a job that has to wait, change its nodes as an operator could, and let it start."""
    blocker = await desk.submit(replace(sh("sleep 60", nodes=len(hosts), exclusive=True), hosts=hosts), job=1)
    await desk.until(blocker, Phase.RUNNING)
    tag = await desk.submit(request, job=2, allowed=bound(*hosts))
    update = await desk.until(tag, Phase.SUBMITTED)
    rich.call("scontrol", "update", f"jobid={update.native}", *changes)
    return tag


@pytest.mark.parametrize(
    ("count", "hosts", "changes"),
    [
        (1, ("a1", "a2"), ("ExcNodeList=",)),
        (2, ("a1", "a2"), ("ReqNodeList=",)),
        (2, ("a1", "a2"), ("ReqNodeList=a3,g1",)),
    ],
)
async def test_a_job_that_slurm_starts_elsewhere_is_returned_and_its_command_is_not_started(
    desk: Desk, rich: SlurmCluster, count: int, hosts: tuple[str, ...], changes: tuple[str, ...]
):
    ran = desk.directory / "ran"
    own = {"SLURM_JOB_NODELIST": "a1", "SLURM_NODELIST": "a1", "IFS": "a"}
    request = replace(sh(f"touch {ran}", nodes=count, tasks=count), environment=own)
    tag = await updated(desk, rich, request, hosts, *changes)
    update = await desk.until(tag, Phase.ENDED)
    assert (update.result.state, update.result.code) == (AttemptState.RETURNED, WRONG_NODES)
    got = allocation(rich, update.native)["NodeList"]
    assert update.nodes == got
    assert not set(expand(got)) <= set(hosts)
    assert f"Slurm gave it {got}, but it may run on a[1-2] only" in update.result.reason
    assert not ran.exists()
    await desk.again()
    found = await desk.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert found.update.result.code == WRONG_NODES


async def test_a_job_that_is_not_bound_runs_wherever_slurm_starts_it(desk: Desk, rich: SlurmCluster):
    update = await desk.run(replace(sh(WHERE), not_hosts=("a1",)), allowed=AllowedHosts(checked=True))
    assert update.result.state is AttemptState.SUCCEEDED
    assert update.nodes == allocation(rich, update.native)["NodeList"]


async def test_names_that_slurm_does_not_know_are_refused_with_both_names(desk: Desk):
    request = requiring(sh("true"), NVME)
    reason = await desk.backend.check(request, bound("x1", "x2"))
    assert "may run on x[1-2], but Slurm has a[1-3],g[1-2]" in reason
    assert reason == (await desk.backend.bid(request, bound("x1", "x2"))).reason
    with pytest.raises(Unsupported, match=r"x\[1-2\]"):
        await desk.submit(request, allowed=bound("x1", "x2"))
    update = await desk.run(request, job=2, allowed=bound("x1", "a2"))
    assert update.nodes == "a2"
    too_few = await desk.backend.check(requiring(sh("true", nodes=2, tasks=2), NVME), bound("x1", "a2"))
    assert "2 nodes" in too_few
    assert "x1, but Slurm has" in too_few
    assert await desk.backend.check(sh("true"), AllowedHosts(checked=True)) is None


async def test_a_node_that_slurm_has_lost_since_it_was_asked_returns_the_job_and_is_asked_for_again(desk: Desk):
    site = await desk.backend.site()
    desk.backend._site = replace(site, nodes=(*site.nodes, "z9"))
    with pytest.raises(CannotBind, match="the cluster's nodes have changed"):
        await desk.submit(sh("true"), allowed=bound("a1"))
    assert (await desk.run(sh("true"), allowed=bound("a1"))).nodes == "a1"


async def test_without_the_servers_word_a_requirement_is_refused_and_a_plain_job_runs(desk: Desk):
    reason = await desk.backend.check(requiring(sh("true"), NVME))
    assert "the server does not send the allowed nodes; upgrade the server" in reason
    assert (await desk.run(sh("true"))).result.state is AttemptState.SUCCEEDED


async def test_a_bid_counts_only_the_allowed_hosts(desk: Desk):
    blocker = await desk.submit(replace(sh("sleep 60", nodes=1, exclusive=True), hosts=("a1",), duration=600.0), job=1)
    await desk.until(blocker, Phase.RUNNING)
    request = replace(requiring(sh("true"), NVME), duration=60.0)
    async with asyncio.timeout(20):
        while (answer := await desk.backend.bid(request, bound("a1"))).start_p50 < 500:
            await asyncio.sleep(0.1)  # Slurm plans a moment later
    assert answer.yes
    assert (await desk.backend.bid(request, bound("a1", "a2"))).start_p50 == 0.0


async def test_what_slurm_can_be_told_is_announced(desk: Desk):
    rules = desk.backend.node_rules
    assert (rules.hosts, rules.groups, rules.one_group) == (True, True, "")
    assert rules.subsystems == {"features", "partitions", "gpus"}
