"""What the Flux backend says of instances of several shapes, and what it does when things go wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow.agent.backends import BackendSettings
from rainbow.agent.backends.flux import FluxBackend, make
from rainbow.agent.backends.flux_files import FluxFiles
from rainbow.agent.values import Absent, Found, Phase, Unknown
from rainbow.discover.flux import flux_graph
from rainbow.jobspecs.flags import Flags, request_from_flags
from rainbow.model.attempt import AttemptState
from rainbow.model.errors import Unavailable
from rainbow.model.request import Count, Group, Level, Request, Task
from tests.contract.backends.conftest import Desk, a_launch, a_request
from tests.support.flux_stand_in import StandIn, an_r

R = an_r({"a1": "0-3", "a2": "0-3", "g1": "0-7"}, properties={"ib": "0-1"})


class Flux(Desk):
    """A desk with the instance behind it."""

    instance: StandIn
    backend: FluxBackend

    def files(self, tag: str = "rb-1-1") -> FluxFiles:
        return FluxFiles(self.backend.root, tag)


@pytest.fixture
async def flux(tmp_path: Path) -> Flux:
    return await a_flux(tmp_path)


async def a_flux(tmp_path: Path, **scheduler: object) -> Flux:
    instance = StandIn(tmp_path / "instance", R, **scheduler)
    settings = BackendSettings(
        cluster="here",
        directory=tmp_path / "state",
        graph=flux_graph("here", R),
        options={
            "uri": instance.uri,
            "flux": instance.program,
            "interval": "0.2",
            "facts_interval": "0",
            "settle": "0",
        },
    )
    desk = Flux(lambda: make(settings), tmp_path)
    desk.instance = instance
    await desk.backend.start()
    return desk


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("sh", "-c", text), **flags))


async def test_a_job_whose_agent_died_before_it_noted_the_id_is_found_by_its_tag(flux: Flux):
    launch = a_launch(a_request("sh", "-c", f"echo ran >> {flux.directory}/runs"))
    native = await flux.backend.submit(launch)
    flux.files().put(replace(flux.files().record(), native=""))
    await flux.again()
    found = await flux.backend.lookup(launch.tag)
    assert isinstance(found, Found)
    assert found.update.native == native
    assert await flux.backend.submit(launch) == native
    await flux.until(launch.tag, Phase.ENDED)
    assert (flux.directory / "runs").read_text() == "ran\n"


async def test_a_job_whose_agent_died_before_it_was_submitted_can_be(flux: Flux):
    launch = a_launch(a_request("true"))
    await flux.backend.submit(a_launch(a_request("true"), job=2))
    flux.files().create(launch, replace(flux.files("rb-2-1").record(), native="", key="never"))
    await flux.again()
    assert await flux.backend.lookup(launch.tag) == Absent(never=True)
    await flux.backend.submit(launch)
    assert (await flux.until(launch.tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_of_two_submissions_to_flux_one_runs_and_keeps_its_output(flux: Flux):
    launch = a_launch(a_request("sh", "-c", f"echo out; echo ran >> {flux.directory}/runs; exit 4"))
    await flux.backend.submit(launch)
    spec = json.loads(next(flux.instance.folder.glob("jobs/*/job.json")).read_text())["jobspec"]
    again = await flux.backend.commands.ask("job", "submit", feed=json.dumps(spec))
    update = await flux.until(launch.tag, Phase.ENDED)
    while again.strip() in await flux.backend.commands.ask("jobs", "--json"):
        await flux.backend.changed()
    assert (update.result.exit_code, await flux.out(launch.tag)) == (4, b"out\n")
    assert (await flux.until(launch.tag, Phase.ENDED)).result.exit_code == 4
    assert (flux.directory / "runs").read_text() == "ran\n"


async def test_an_instance_that_does_not_answer_means_unknown(flux: Flux):
    tag = await flux.submit(a_request("sh", "-c", "echo up; exec sleep 60"))
    await flux.until_output(tag, b"up")
    flux.instance.stop()
    with pytest.raises(Unavailable):
        await flux.backend.poll()
    assert isinstance(await flux.backend.lookup(tag), Unknown)
    with pytest.raises(Unavailable):
        await flux.backend.submit(a_launch(a_request("true"), job=2))
    flux.instance.start()
    await flux.until(tag, Phase.RUNNING)
    await flux.backend.cancel(tag)
    assert (await flux.until(tag, Phase.ENDED)).result.state is AttemptState.CANCELLED


async def test_a_purged_job_still_gives_its_exit_code(flux: Flux):
    tag = await flux.submit(a_request("sh", "-c", "exit 3"))
    await flux.until(tag, Phase.ENDED)
    for path in flux.instance.folder.glob("jobs/*/job.json"):
        path.unlink()
    await flux.again()
    assert (await flux.until(tag, Phase.ENDED)).result.exit_code == 3


async def test_another_rainbow_in_the_same_instance_is_not_mistaken_for_this_one(flux: Flux, tmp_path: Path):
    await flux.run(a_request("true"))
    other = make(replace(flux.backend.settings, cluster="there", directory=tmp_path / "other"))
    await other.start()
    assert isinstance(await other.lookup("rb-1-1"), Absent)
    assert await other.poll() == ()


async def test_nodes_that_are_down_or_drained_are_marked_and_come_back(flux: Flux):
    flux.instance.set_states(offline=[0], drained=[2])
    assert (await flux.backend.facts()).marks == {"rank0": "down", "rank2": "drained"}
    flux.instance.set_states()
    await flux.again()
    assert (await flux.backend.facts()).marks == {"rank0": "up", "rank2": "up"}


async def test_what_others_use_is_told_and_what_we_use_is_not(flux: Flux):
    tag = await flux.submit(sh("sleep 60", tasks=1, cores_per_task=3))
    await flux.until(tag, Phase.RUNNING)
    spec = json.loads(next(flux.instance.folder.glob("jobs/*/job.json")).read_text())["jobspec"]
    spec["attributes"]["system"].update(job={"name": "other"}, shell={}, cwd="/")
    spec["tasks"][0]["command"] = ["sleep", "60"]
    other = (await flux.backend.commands.ask("job", "submit", feed=json.dumps(spec))).strip()
    await flux.backend.poll()
    facts = await flux.backend.facts()
    assert facts.used == {"rank1/core": 3}
    assert (facts.state["cores_free"], facts.state["nodes_free"]) == (16 - 6, 1)
    await flux.backend.commands.run("cancel", other)
    await flux.backend.cancel(tag)
    await flux.until(tag, Phase.ENDED)


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ({"policy": "fcfs"}, 600),  # Fluxion overlooks what waits, so the queue is played forward
        ({"policy": "conservative"}, 300),  # taken at its word (the stand-in makes no reservations)
        ({"fluxion": False}, 600),
    ],
)
async def test_a_bid_believes_the_scheduler_only_where_it_is_honest(tmp_path: Path, scheduler: dict, expected: int):
    flux = await a_flux(tmp_path, **scheduler)
    everything = replace(sh("sleep 60", tasks=4, cores_per_task=4), duration=300.0)
    first = await flux.submit(everything, job=1)
    await flux.until(first, Phase.RUNNING)
    second = await flux.submit(everything, job=2)
    await flux.until(second, Phase.SUBMITTED)
    answer = await flux.backend.bid(replace(sh("true"), duration=60.0))
    assert expected - 20 < answer.start_p50 <= expected
    for tag in (second, first):
        await flux.backend.cancel(tag)
        await flux.until(tag, Phase.ENDED)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (sh("true", nodes=1, tasks=1, memory="4G"), "memory"),
        (sh("true", nodes=4, tasks=4), "room for 3"),
        (replace(sh("true"), properties=("h100",)), "'h100'"),
        (replace(sh("true"), options={"qos": "x"}), "no option 'qos'"),
        (replace(sh("true"), image="docker://x"), "container"),
        (replace(sh("true"), tasks=(Task(command=("a",)), Task(command=("b",)))), "one task"),
    ],
)
async def test_what_flux_cannot_do_is_refused_with_the_reason(flux: Flux, request_: Request, reason: str):
    assert reason in (await flux.backend.check(request_) or "")


async def test_one_task_on_several_nodes_runs_once(flux: Flux):
    """What the prototype's clients send for a plain command: some nodes, one task."""
    inside = Level(type="node", count=Count(2), inside=(Level(type="core", count=Count(2)),))
    rack = Level(type="rack", shared=True, abstract=True, inside=(inside,))
    request = replace(
        a_request("sh", "-c", "echo $RAINBOW_TASK_RANK of $RAINBOW_TASKS"), groups=(Group(levels=(rack,)),)
    )
    update = await flux.run(request)
    assert update.result.state is AttemptState.SUCCEEDED
    assert await flux.out(update.tag) == b"0 of 1\n"
