"""A machine whose graph has several nodes: jobs are placed on the nodes that they are bound to, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.local.backend import LocalBackend
from rainbow_sched.agent.backends.local.files import JobFiles
from rainbow_sched.agent.backends.local.machine import Machine
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.model.graph import Graph, Vertex
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Count, Group, Level, Request
from rainbow_sched.protocol.messages import AllowedHosts
from tests.support.backends import Desk, a_request

NODES = ("n0", "n1", "n2", "n3")


def four_nodes(names: tuple[str, ...] = NODES) -> Graph:
    """Nodes of two cores, 512 MiB and a gpu each."""
    vertices, edges = [Vertex(id="c", type="cluster", name="here")], []
    for name in names:
        vertices.append(Vertex(id=name, type="node", name=name))
        edges.append(("c", name))
        for type, size, unit in (("core", 2, ""), ("memory", 512, "MiB"), ("gpu", 1, "")):
            vertices.append(Vertex(id=f"{name}/{type}", type=type, name=type, size=size, unit=unit))
            edges.append((name, f"{name}/{type}"))
    return Graph.build(vertices, edges)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(cluster="here", directory=tmp_path / "state", graph=four_nodes())
    desk = Desk(lambda: LocalBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()


def bound(*hosts: str) -> AllowedHosts:
    return AllowedHosts((GroupHosts(0, hosts),), checked=True)


def on_nodes(count: int, *command: str, exclusive: bool = False, **inside: int) -> Request:
    """`count` nodes with so much inside each."""
    levels = tuple(Level(type=type, count=Count(many)) for type, many in inside.items())
    level = Level(type="node", count=Count(count), exclusive=exclusive, inside=levels)
    return replace(a_request(*(command or ("true",))), groups=(Group(levels=(level,)),))


@pytest.mark.parametrize("hosts", [("n2",), ("n1", "n3")], ids=",".join)
async def test_sixteen_jobs_run_on_the_nodes_that_are_allowed(desk: Desk, hosts: tuple[str, ...]):
    tags = [await desk.submit(a_request("true"), job=job, allowed=bound(*hosts)) for job in range(1, 17)]
    updates = [await desk.until(tag, Phase.ENDED) for tag in tags]
    assert {update.result.state for update in updates} == {AttemptState.SUCCEEDED}
    assert {update.nodes for update in updates} == set(hosts)


async def test_a_waiting_job_stays_bound_when_the_agent_is_restarted(desk: Desk):
    first = await desk.submit(on_nodes(1, "sleep", "60"), job=1, allowed=bound("n1"))
    second = await desk.submit(a_request("true"), job=2, allowed=bound("n1"))
    await desk.until(first, Phase.RUNNING)
    await desk.again()
    await desk.until(second, Phase.SUBMITTED)
    await desk.backend.cancel(first)
    assert (await desk.until(second, Phase.ENDED)).nodes == "n1"


async def test_random_jobs_are_placed_within_their_hosts_and_never_over_what_is_there(desk: Desk):
    """The oracle adds up what the place files say of each moment at which jobs ran together."""
    rng = Random(7)
    cases = {}
    while len(cases) < 20:
        hosts = tuple(sorted(rng.sample(NODES, rng.randint(1, 3))))
        count, cores, exclusive = rng.randint(1, 3), rng.randint(1, 2), rng.random() < 0.3
        gpus = {"gpu": 1} if rng.random() < 0.3 else {}
        request = on_nodes(
            count, "sleep", "0.05", exclusive=exclusive, core=cores, memory=rng.choice((100, 512)), **gpus
        )
        reason = await desk.backend.check(request, bound(*hosts))
        assert (reason is None) == (count <= len(hosts)), reason
        if reason is None:
            job = len(cases) + 1
            cases[await desk.submit(request, job=job, allowed=bound(*hosts))] = (hosts, count, cores, exclusive, gpus)
    spans = []
    for tag, (hosts, count, cores, exclusive, gpus) in cases.items():
        update = await desk.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED
        holds = json.loads((JobFiles(desk.backend.root, tag).path / "place.json").read_text())["holds"]
        nodes = {id.partition("/")[0] for id in holds}
        assert nodes == set(expand(update.nodes))
        assert nodes <= set(hosts)
        assert len(nodes) == count
        for node in nodes:
            assert holds[f"{node}/core"] == (2 if exclusive else cores)
            assert holds.get(f"{node}/gpu", 0) == (1 if exclusive or gpus else 0)
        spans.append((update.result.started_at, update.result.ended_at, holds))
    whole = {"core": 2, "gpu": 1, "memory": 512 << 20}
    for began, _, _ in spans:
        together: dict[str, int] = {}
        for start, end, holds in spans:
            for id, units in holds.items() if start <= began < end else ():
                together[id] = together.get(id, 0) + units
        assert all(units <= whole[id.partition("/")[2]] for id, units in together.items())


async def test_groups_are_placed_each_on_its_own_hosts(desk: Desk):
    core = (Level(type="core", count=Count(2)),)
    level = Level(type="node", inside=core)
    request = replace(a_request("true"), groups=(Group(levels=(level,), name="a"), Group(levels=(level,), name="b")))
    allowed = AllowedHosts((GroupHosts(0, ("n0", "n3")), GroupHosts(1, ("n0",))), checked=True)
    update = await desk.run(request, allowed=allowed)
    assert expand(update.nodes) == ["n3", "n0"]  # the second group has no choice
    assert desk.backend.node_rules.groups


async def test_a_job_that_is_placed_on_other_hosts_is_returned_and_not_started(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """What would take a fault of the placing itself: the runner looks again."""
    machine = desk.backend.machine
    monkeypatch.setattr(machine, "take", lambda request, allowed: Machine.take(machine, request))
    ran = desk.directory / "ran"
    update = await desk.run(a_request("touch", str(ran)), allowed=bound("n2"))
    assert (update.result.state, update.result.code) == (AttemptState.RETURNED, WRONG_NODES)
    assert update.result.reason == "it was placed on n0, but may run on n2 only; it was not started"
    assert not ran.exists()


async def test_a_waiting_job_whose_hosts_are_gone_from_the_machine_is_returned_with_both_names(desk: Desk):
    first = await desk.submit(on_nodes(1, "sleep", "60"), job=1, allowed=bound("n1"))
    second = await desk.submit(a_request("true"), job=2, allowed=bound("n1"))
    await desk.until(first, Phase.RUNNING)
    desk.backend.reshape(four_nodes(("n0", "m1", "n2", "n3")))
    result = (await desk.until(second, Phase.ENDED)).result
    assert result.state is AttemptState.RETURNED
    assert "may run on n1, but this machine's graph has n0,m1,n[2-3]" in result.reason


async def test_a_job_that_an_older_agent_submitted_is_run(desk: Desk):
    """Its files say nothing of hosts."""
    first = await desk.submit(on_nodes(4, "sleep", "60"), job=1)
    second = await desk.submit(a_request("true"), job=2)
    await desk.until(first, Phase.RUNNING)
    path = JobFiles(desk.backend.root, second).path / "launch.json"
    launch = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in launch.items() if key not in ("only", "checked")}))
    await desk.again()
    await desk.backend.cancel(first)
    assert (await desk.until(second, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_an_older_servers_choice_of_hosts_is_refused_where_there_are_several_nodes(desk: Desk):
    assert "upgrade the server" in await desk.backend.check(replace(a_request("true"), not_hosts=("n0",)))
    assert await desk.backend.check(replace(a_request("true"), not_hosts=("n0",)), bound("n1")) is None
    assert await desk.backend.check(a_request("true")) is None


async def test_a_constraint_on_features_is_refused_and_not_dropped(desk: Desk):
    request = replace(on_nodes(1, core=1), options={"constraint": "ib"})
    refused = await desk.backend.check(request)
    assert refused == "this machine has no features, so the constraint 'ib' cannot be met"
    assert (await desk.backend.bid(request)).reason == refused
