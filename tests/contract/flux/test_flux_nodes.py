"""Jobs run on the nodes that they are bound to: judged by what Flux gave them, not by what it was told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.agent.backends.flux.backend import FluxBackend
from rainbow_sched.agent.backends.flux.jobs import job_number
from rainbow_sched.agent.core.values import JobFound, Phase
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.model.hostlist import expand, parse_idset
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement
from rainbow_sched.protocol.messages import AllowedHosts
from tests.contract.flux.conftest import Flux, R, a_flux, leave
from tests.support.flux_stand_in import StandIn

NVME = Requirement("io", (Equals("kind", "nvme"),))  # on a subsystem that Flux knows nothing of
ALL = ("a1", "a2", "g1")
WRONG_ENVIRONMENT = {"PATH": "/nowhere", "FLUX_URI": "local:///nowhere", "LD_PRELOAD": "", "rb_got": "a1"}


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("/bin/sh", "-c", text), **flags))


def bound(*hosts: str) -> AllowedHosts:
    return AllowedHosts((GroupHosts(0, hosts),), checked=True)


def requiring(request: Request, *requires: Requirement) -> Request:
    """The same with requirements on each node."""
    levels = tuple(replace(level, requires=requires) for level in request.groups[0].levels)
    return replace(request, groups=(Group(levels=levels),))


async def allocation(flux: Flux, native: str) -> dict[str, dict[str, int]]:
    """What Flux itself gave a job, by its R: node to the resources in it."""
    execution = (await flux.backend.commands.document("job", "info", native, "R"))["execution"]
    names = [name for text in execution["nodelist"] for name in expand(text)]
    ranks = {}
    for part in execution["R_lite"]:
        for rank in parse_idset(part["rank"]):
            ranks[rank] = {type: len(parse_idset(ids)) for type, ids in part["children"].items()}
    return dict(zip(names, [ranks[rank] for rank in sorted(ranks)], strict=True))


@pytest.mark.parametrize("hosts", [("a2",), ("a2", "g1")], ids=",".join)
async def test_sixteen_jobs_run_on_the_nodes_that_meet_their_requirement(flux: Flux, hosts: tuple[str, ...]):
    request = requiring(sh("true"), NVME)
    tags = [await flux.submit(request, job=job, allowed=bound(*hosts)) for job in range(1, 17)]
    updates = [await flux.until(tag, Phase.ENDED) for tag in tags]
    assert {update.result.state for update in updates} == {AttemptState.SUCCEEDED}
    ran = [[*await allocation(flux, update.native)] for update in updates]
    assert {name for names in ran for name in names} <= set(hosts)
    assert [expand(update.nodes) for update in updates] == ran


@pytest.mark.parametrize(
    ("request_", "hosts", "expected"),
    [
        (sh("true", nodes=2, tasks=2), ("a2", "g1"), {"a2", "g1"}),
        (sh("true", tasks=1, cores_per_task=6), ALL, {"g1"}),
        (replace(sh("true"), hosts=("a1", "a2")), ("a2", "g1"), {"a2"}),
        (replace(sh("true"), not_hosts=("a1",)), ("a1", "a2"), {"a2"}),
        (replace(sh("true"), properties=("ib",)), ("a2", "g1"), {"a2"}),
        (replace(sh("true"), properties=("^ib",)), ("a2", "g1"), {"g1"}),
        (replace(sh("true"), properties=("fast",)), ("g1",), {"g1"}),  # a property that Flux knows nothing of
        (requiring(sh("true"), NVME, Requirement("properties", (Equals("name", "ib"),))), ("a2", "g1"), {"a2"}),
        (replace(sh("true"), environment={"FLUX_URI": "local:///nowhere", "PATH": "/nowhere"}), ("a2",), {"a2"}),
    ],
)
async def test_the_allowed_hosts_are_joined_with_what_else_the_job_asks_for(
    flux: Flux, request_: Request, hosts: tuple[str, ...], expected: set[str]
):
    update = await flux.run(request_, allowed=bound(*hosts))
    assert update.result.state is AttemptState.SUCCEEDED, update.result
    assert set(await allocation(flux, update.native)) <= expected


async def test_random_jobs_get_what_they_ask_for_on_the_hosts_that_are_allowed(flux: Flux):
    """The oracle is R."""
    rng = Random(20261118)
    cases = []
    while len(cases) < 16:
        hosts = tuple(sorted(rng.sample(ALL, rng.randint(1, 3))))
        count, cores = rng.randint(1, 2), rng.randint(1, 6)
        level = Level(
            type="node", count=Count(count), requires=(NVME,), inside=(Level(type="core", count=Count(cores)),)
        )
        request = replace(sh("true"), groups=(Group(levels=(level,)),))
        fit = [host for host in hosts if cores <= 4 or host == "g1"]
        reason = await flux.backend.check(request, bound(*hosts))
        assert (reason is None) == (len(fit) >= count), (hosts, count, cores, reason)
        if reason is None:
            cases.append((hosts, count, cores, request))
    tags = [await flux.submit(case[-1], job=job, allowed=bound(*case[0])) for job, case in enumerate(cases, start=1)]
    for tag, (hosts, count, cores, _) in zip(tags, cases, strict=True):
        update = await flux.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED, update.result
        held = await allocation(flux, update.native)
        assert set(held) <= set(hosts)
        assert len(held) == count
        assert all(inside["core"] >= cores for inside in held.values())


@pytest.fixture(params=["journal", "no journal", "R cannot be read"])
async def stand_in(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flux]:
    """The stand-in alone: a real Flux offers no way to start a job outside of its own constraint."""
    instance = StandIn(tmp_path / "instance", R)
    if request.param == "no journal":
        instance.for_a_guest()
    if request.param == "R cannot be read":
        (instance.folder / "no-job-info").touch()
    made = await a_flux(tmp_path, instance)
    yield made
    await leave(made)


@pytest.mark.parametrize(("count", "moved"), [(1, ["g1"]), (2, ["a2,g1"])])
async def test_a_job_that_flux_starts_elsewhere_is_returned_and_its_command_is_not_started(
    stand_in: Flux, count: int, moved: list[str]
):
    ran = stand_in.directory / "ran"
    blocker = await stand_in.submit(replace(sh("sleep 60", tasks=2, cores_per_task=4), not_hosts=("g1",)), job=1)
    await stand_in.until(blocker, Phase.RUNNING)
    request = replace(sh(f"/bin/touch {ran}", nodes=count, tasks=count), environment=WRONG_ENVIRONMENT)
    tag = await stand_in.submit(request, job=2, allowed=bound("a1", "a2"))
    native = stand_in.files(tag).record().native
    path = stand_in.instance.folder / "jobs" / str(job_number(native)) / "job.json"
    job = json.loads(path.read_text())
    assert job["state"] == "SCHED"
    job["jobspec"]["attributes"]["system"]["constraints"] = {"hostlist": moved}
    path.write_text(json.dumps(job))
    await stand_in.backend.cancel(blocker)
    update = await stand_in.until(tag, Phase.ENDED)
    assert (update.result.state, update.result.code) == (AttemptState.RETURNED, WRONG_NODES)
    assert expand(update.nodes) == expand(moved[0])
    assert "Flux gave it " in update.result.reason
    assert "but it may run on a[1-2] only" in update.result.reason
    assert not ran.exists()
    stand_in.instance.purge()
    await stand_in.again()
    found = await stand_in.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert found.update.result.code == WRONG_NODES


async def test_names_that_flux_does_not_know_are_refused_with_both_names(flux: Flux):
    request = requiring(sh("true"), NVME)
    reason = await flux.backend.check(request, bound("x1", "x2"))
    assert "may run on x[1-2], but Flux has a[1-2],g1" in reason
    assert reason == (await flux.backend.bid(request, bound("x1", "x2"))).reason
    too_few = await flux.backend.check(requiring(sh("true", nodes=2, tasks=2), NVME), bound("x1", "a2"))
    assert "room for 1" in too_few
    assert "x1, but Flux has" in too_few


async def test_a_bid_counts_only_the_allowed_hosts(flux: Flux):
    blocker = await flux.submit(replace(sh("sleep 60", tasks=1, cores_per_task=4), duration=600.0), allowed=bound("a1"))
    await flux.until(blocker, Phase.RUNNING)
    request = replace(requiring(sh("true"), NVME), duration=60.0)
    assert (await flux.backend.bid(request, bound("a1", "a2"))).start_p50 == 0.0
    large = requiring(sh("true", tasks=1, cores_per_task=5), NVME)
    assert "room for 0 on the 1 nodes" in (await flux.backend.bid(large, bound("a1"))).reason


def test_what_flux_can_be_told_is_announced():
    assert FluxBackend.node_rules.hosts
    assert not FluxBackend.node_rules.groups
    assert FluxBackend.node_rules.subsystems == {"properties", "queues"}
