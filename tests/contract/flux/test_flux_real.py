"""What only a real Flux shows: schedulers' estimates, queues, a node that dies, a scheduling graph, a dead broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.finder import discover_cluster
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.model.request import Request
from tests.contract.flux.conftest import Flux, R, a_flux, leave
from tests.support.flux_stand_in import an_r
from tests.support.flux_stand_in.real import RealFlux, a_real_flux

CONSERVATIVE = "--conf=sched-fluxion-qmanager.queue-policy=conservative"
QUEUES = """\
[queues.batch]
requires = ["batch"]
[queues.debug]
requires = ["debug"]
[policy.jobspec.defaults.system]
queue = "batch"
"""
WITH_QUEUES = an_r({"a1": "0-1", "a2": "0-1", "d1": "0-1"}, gpus="0", properties={"batch": "0-1", "debug": "2"})


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("sh", "-c", text), **flags))


@pytest.fixture(scope="module")
def conservative() -> Iterator[RealFlux]:
    with a_real_flux(R, CONSERVATIVE) as instance:
        yield instance


@pytest.mark.parametrize("name", ["fluxion_site", "conservative", "simple_site"])
async def test_a_bid_counts_what_runs_and_what_waits(name: str, request: pytest.FixtureRequest, tmp_path: Path):
    flux = await a_flux(tmp_path, request.getfixturevalue(name))
    everything = replace(sh("sleep 60", tasks=4, cores_per_task=4), duration=300.0)
    one = replace(sh("true"), duration=60.0)
    assert (await flux.backend.bid(one)).start_p50 == 0.0
    first = await flux.submit(everything, job=1)
    await flux.until(first, Phase.RUNNING)
    answer = await flux.backend.bid(one)
    assert 270 < answer.start_p50 <= 301
    second = await flux.submit(everything, job=2)
    await flux.until(second, Phase.SUBMITTED)
    async with asyncio.timeout(30):  # until the scheduler has looked at the second one
        while (answer := await flux.backend.bid(one)).start_p50 < 301:
            await flux.backend.changed()
    assert 570 < answer.start_p50 <= 602
    await leave(flux)


async def test_behind_a_job_without_a_limit_no_start_is_promised(flux: Flux):
    tag = await flux.submit(sh("sleep 60", tasks=4, cores_per_task=4))
    await flux.until(tag, Phase.RUNNING)
    answer = await flux.backend.bid(sh("true"))
    assert (answer.yes, answer.start_p50) == (True, None)


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFlux]:
    path = tmp_path_factory.mktemp("queues") / "flux.toml"
    path.write_text(QUEUES)
    with a_real_flux(WITH_QUEUES, f"--config-path={path}") as instance:
        instance.ask("queue", "start", "--all")
        yield instance


def test_queues_and_properties_are_discovered(queues: RealFlux):
    found = discover_cluster("here", "flux", {"uri": queues.uri, "flux": queues.program})
    hang = {(one.name, vertex.name): on for one in found.subsystems for vertex, _, on in one.items()}
    assert hang["queues", "batch"] == hang["properties", "batch"] == ("rank0", "rank1")
    assert hang["queues", "debug"] == ("rank2",)


async def test_a_job_gets_the_queue_it_asks_for_and_an_unknown_one_is_refused(queues: RealFlux, tmp_path: Path):
    flux = await a_flux(tmp_path, queues, WITH_QUEUES)
    for number, (queue, ranks) in enumerate({"": {0, 1}, "batch": {0, 1}, "debug": {2}}.items(), start=1):
        wanted = replace(sh("true"), options={"queue": queue} if queue else {})
        assert (await flux.run(wanted, job=number)).result.state is AttemptState.SUCCEEDED
        [job] = [job for job in await flux.backend.all_jobs() if job.name == f"rb-{number}-1"]
        assert set(job.on) <= ranks
    assert "'night'" in await flux.backend.check(replace(sh("true"), options={"queue": "night"}))
    assert "room for 1 on the 1 nodes" in await flux.backend.check(
        replace(sh("true", tasks=2, gpus_per_task=1), options={"queue": "debug"})
    )
    await leave(flux)


async def test_a_full_queue_does_not_keep_another_from_starting(queues: RealFlux, tmp_path: Path):
    flux = await a_flux(tmp_path, queues, WITH_QUEUES)
    in_queue = {queue: replace(sh("true"), options={"queue": queue}, duration=60.0) for queue in ("batch", "debug")}
    everything = replace(sh("sleep 60", tasks=4), options={"queue": "batch"}, duration=300.0)
    await flux.until(await flux.submit(everything, job=1), Phase.RUNNING)
    for waiting in (0, 1):  # with nothing waiting the scheduler's word is taken, else the queue is played forward
        starts = {queue: (await flux.backend.bid(one)).start_p50 for queue, one in in_queue.items()}
        assert 270 < starts["batch"] - 300 * waiting <= 302
        assert waiting or starts["debug"] == 0.0
        if not waiting:
            await flux.until(await flux.submit(everything, job=2), Phase.SUBMITTED)
    await leave(flux)


async def test_gpus_of_our_own_are_not_told_as_others(queues: RealFlux, tmp_path: Path):
    flux = await a_flux(tmp_path, queues, WITH_QUEUES)
    tag = await flux.submit(sh("sleep 60", tasks=2, gpus_per_task=1))
    await flux.until(tag, Phase.RUNNING)
    facts = await flux.backend.facts()
    assert (facts.used, facts.state["gpus_free"]) == ({}, 1)
    await leave(flux)


async def test_a_node_that_dies_is_told_and_its_job_has_failed_by_it(tmp_path: Path):
    with a_real_flux(an_r({"n0": "0-1", "n1": "0-1"})) as instance:
        flux = await a_flux(tmp_path, instance, an_r({"n0": "0-1", "n1": "0-1"}))
        tag = await flux.submit(sh("echo up; sleep 60", nodes=2, tasks=2))
        await flux.until_output(tag, b"up\nup\n")
        os.kill(int(instance.ask("exec", "-r1", "flux", "getattr", "broker.pid")), signal.SIGKILL)
        result = (await flux.until(tag, Phase.ENDED)).result
        assert (result.state, result.failure) == (AttemptState.FAILED, Failure.NODE)
        assert (await flux.backend.facts()).marks == {"rank1": "down"}
        await leave(flux)


async def test_a_scheduling_graph_is_what_is_discovered_and_marked(tmp_path: Path):
    with a_real_flux(an_r({"n0": "0-1"})) as small:
        if not small.has_fluxion:
            pytest.skip("optional: this Flux has no Fluxion")
        encoded = small.ask("R", "encode", "-r0-1", "-c0-1", "-Hn[0-1]")
        r = json.loads(small.ask("ion-R", "encode", feed=encoded))
    with a_real_flux(r) as instance:
        found = discover_cluster("here", "flux", {"uri": instance.uri, "flux": instance.program})
        assert found.graph.names[found.graph.positions()["rank1"]] == "n1"
        flux = await a_flux(tmp_path, instance, r)
        instance.set_states(drained=[1])
        facts = await flux.backend.facts()
        assert (facts.marks, facts.state["scheduler"]) == ({"rank1": "drained"}, "fluxion")
        assert (await flux.run(sh("true"))).result.state is AttemptState.SUCCEEDED
        await leave(flux)


async def test_a_broker_that_is_killed_means_unknown_not_ended(tmp_path: Path):
    with a_real_flux(an_r({"n0": "0-1"})) as instance:
        flux = await a_flux(tmp_path, instance, an_r({"n0": "0-1"}))
        tag = await flux.submit(sh("echo up; sleep 60"))
        await flux.until_output(tag, b"up")
        os.kill(int(instance.ask("getattr", "broker.pid")), signal.SIGKILL)
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable):
                while True:
                    assert {update.phase for update in await flux.backend.poll()} == {Phase.RUNNING}
                    await flux.backend.changed()
        await flux.backend.close()
