"""What the Flux backend says of instances of several shapes, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends.flux.backend import FluxBackend
from rainbow_sched.agent.backends.flux.jobs import FluxJob, parse_jobs
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Unknown
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task
from tests.contract.flux.conftest import Flux, R, a_flux, leave
from tests.support.backends import a_launch, a_request
from tests.support.flux_stand_in import StandIn


def sh(text: str, **flags: object) -> Request:
    return request_from_flags(Flags(command=("sh", "-c", text), **flags))


async def jobspec_of(flux: Flux, native: str) -> dict:
    return await flux.backend.commands.document("job", "info", native, "jobspec")


async def test_a_job_whose_agent_died_before_it_noted_the_id_is_found_by_its_tag(flux: Flux):
    launch = a_launch(a_request("sh", "-c", f"echo ran >> {flux.directory}/runs"))
    native = await flux.backend.submit(launch)
    flux.files().put(replace(flux.files().record(), native=""))
    await flux.again()
    while isinstance(found := await flux.backend.lookup(launch.tag), Unknown):  # Flux lists it a moment late
        await flux.backend.changed()
    assert isinstance(found, JobFound)
    assert found.update.native == native
    assert await flux.backend.submit(launch) == native
    await flux.until(launch.tag, Phase.ENDED)
    assert (flux.directory / "runs").read_text() == "ran\n"


async def test_a_job_whose_agent_died_before_it_was_submitted_can_be(flux: Flux):
    launch = a_launch(a_request("true"))
    await flux.backend.submit(a_launch(a_request("true"), job=2))
    record = replace(flux.files("rb-2-1").record(), native="", key="never", asked=0.0)
    flux.files().create(record)
    flux.files().write(launch, record, flux.backend.commands)
    await flux.again()
    assert await flux.backend.lookup(launch.tag) == Absent(never=True)
    await flux.backend.submit(launch)
    assert (await flux.until(launch.tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_of_two_submissions_to_flux_one_runs_and_keeps_its_output(flux: Flux):
    launch = a_launch(a_request("sh", "-c", f"echo out; echo ran >> {flux.directory}/runs; exit 4"))
    native = await flux.backend.submit(launch)
    again = await flux.backend.commands.ask("job", "submit", feed=json.dumps(await jobspec_of(flux, native)))
    update = await flux.until(launch.tag, Phase.ENDED)
    await flux.backend.commands.run("job", "wait-event", again.strip(), "clean")
    assert (update.result.exit_code, await flux.out(launch.tag)) == (4, b"out\n")
    assert (await flux.until(launch.tag, Phase.ENDED)).result.exit_code == 4
    assert (flux.directory / "runs").read_text() == "ran\n"


async def test_a_purged_job_still_gives_its_exit_code(flux: Flux):
    tag = await flux.submit(a_request("sh", "-c", "exit 3"))
    await flux.until(tag, Phase.ENDED)
    flux.instance.purge()
    await flux.again()
    assert (await flux.until(tag, Phase.ENDED)).result.exit_code == 3


async def test_another_rainbow_in_the_same_instance_is_not_mistaken_for_this_one(flux: Flux, tmp_path: Path):
    await flux.run(a_request("true"))
    other = FluxBackend(replace(flux.backend.settings, cluster="there", directory=tmp_path / "other"))
    await other.start()
    assert isinstance(await other.lookup("rb-1-1"), Absent)
    assert await other.poll() == ()
    await other.close()


async def test_nodes_that_are_drained_are_marked_and_come_back(flux: Flux):
    flux.instance.set_states(drained=[2])
    facts = await flux.backend.facts()
    assert (facts.marks, facts.state["cores_free"], facts.state["nodes_free"]) == ({"rank2": "drained"}, 8, 2)
    flux.instance.set_states()
    await flux.again()
    assert (await flux.backend.facts()).marks == {"rank2": "up"}


async def test_what_others_use_is_told_and_what_we_use_is_not(flux: Flux):
    tag = await flux.submit(sh("sleep 60", tasks=1, cores_per_task=3))
    mine = await flux.until(tag, Phase.RUNNING)
    spec = await jobspec_of(flux, mine.native)
    spec["attributes"]["system"].update(job={"name": "other"}, shell={}, cwd="/")
    spec["tasks"][0]["command"] = ["sleep", "60"]
    other = (await flux.backend.commands.ask("job", "submit", feed=json.dumps(spec))).strip()
    await flux.backend.commands.run("job", "wait-event", other, "start")
    async with asyncio.timeout(20):  # until Flux lists both
        while (
            sum(job.phase is Phase.RUNNING for job in parse_jobs(await flux.backend.commands.ask("jobs", "--json"))) < 2
        ):
            await flux.backend.changed()
    await flux.backend.poll()
    facts = await flux.backend.facts()
    assert list(facts.used.values()) == [3]
    assert (facts.state["cores_free"], facts.state["nodes_free"]) in ((16 - 6, 1), (16 - 6, 2))
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
    flux = await a_flux(tmp_path, StandIn(tmp_path / "instance", R, **scheduler))
    everything = replace(sh("sleep 60", tasks=4, cores_per_task=4), duration=300.0)
    first = await flux.submit(everything, job=1)
    await flux.until(first, Phase.RUNNING)
    second = await flux.submit(everything, job=2)
    await flux.until(second, Phase.SUBMITTED)

    async def both_are_listed() -> bool:
        return len(await flux.backend.active_jobs()) == 2

    await flux.wait(both_are_listed)  # Flux tells of it a moment later
    answer = await flux.backend.bid(replace(sh("true"), duration=60.0))
    assert expected - 20 < answer.start_p50 <= expected
    await leave(flux)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (sh("true", nodes=1, tasks=1, memory="4G"), "memory"),
        (sh("true", nodes=4, tasks=4), "room for 3"),
        (replace(sh("true"), properties=("h100",)), "'h100'"),
        (replace(sh("true"), options={"qos": "x"}), "unknown option 'qos'"),
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


async def test_a_folder_that_is_not_there_fails_the_launch_and_nothing_runs_elsewhere(flux: Flux):
    """Flux by itself would run it in /tmp."""
    update = await flux.run(replace(sh(f"echo ran > {flux.directory}/ran"), cwd=str(flux.directory / "nowhere")))
    assert (update.result.failure, update.result.reason) == (Failure.LAUNCH, "its working directory cannot be used")
    assert not (flux.directory / "ran").exists()


async def test_a_required_property_keeps_a_job_on_the_nodes_that_have_it(flux: Flux):
    wanted = Requirement("properties", (Equals("name", "ib"),))
    tags = [
        await flux.submit(replace(sh("echo $FLUX_JOB_ID", tasks=1, cores_per_task=4), requires=(wanted,)), job=n)
        for n in (1, 2)
    ]
    for tag in tags:
        update = await flux.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED
        job = next(job for job in await flux.backend.all_jobs() if job.name == tag and job.on)
        assert set(job.on) <= {0, 1}


async def test_the_journal_says_the_same_as_the_question(flux: Flux):
    """All kinds of ends, by both ways."""
    await flux.wait(lambda: flux.backend.follower.table is not None)
    requests = [
        sh("true"),
        sh("exit 3"),
        sh("kill -9 $$"),
        sh("true", nodes=2, tasks=2),
        replace(sh("sleep 9"), duration=0.3),
    ]
    tags = [await flux.submit(request, job=n) for n, request in enumerate(requests, start=1)]
    tags.append(await flux.submit(sh("sleep 60"), job=90))
    await flux.until("rb-90-1", Phase.RUNNING)
    await flux.backend.cancel("rb-90-1")
    ends = {tag: await flux.until(tag, Phase.ENDED) for tag in tags}
    told = {job.id: job for job in flux.backend.follower.table.jobs if job.name in ends}
    text = await flux.backend.commands.ask(
        "jobs", "-a", "--json", "--count=0", f"--since={flux.files().record().asked}"
    )
    listed = {job.id: job for job in parse_jobs(text) if job.id in told}
    assert len(listed) == len(tags)
    for id, job in listed.items():
        assert rounded(told[id]) == rounded(job)


def rounded(job: FluxJob) -> FluxJob:
    """Times to the millisecond, ranks in one form."""
    times = {name: round(getattr(job, name) or 0.0, 3) for name in ("submitted", "started", "ended", "expires")}
    return replace(job, ranks=str(sorted(job.on)), node_list=",".join(sorted(expand(job.node_list))), **times)
