"""What must hold when the agent or Slurm's controller dies at the worst moment, on a real cluster."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from rainbow_sched.agent.backends.slurm.files import SlurmFiles
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Unknown
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Invalid, Unavailable
from tests.support.backends import Desk, a_launch, a_request
from tests.support.slurm import SlurmCluster, running


@pytest.fixture(scope="module")
def fragile():
    """A cluster of this module's own: its controller is stopped and killed."""
    yield from running(SlurmCluster("fragile"))


@pytest.fixture
async def desk(fragile: SlurmCluster, tmp_path: Path) -> Desk:
    """A backend on it that has to find out everything itself."""
    settings = BackendSettings(
        cluster=tmp_path.name.replace("_", "-"),
        directory=tmp_path / "state",
        options={"conf": str(fragile.conf), "interval": "0.3", "facts_interval": "0"},
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    return desk


def files(desk: Desk, tag: str = "rb-1-1") -> SlurmFiles:
    backend = desk.backend
    assert isinstance(backend, SlurmBackend)
    return SlurmFiles(backend.root, tag)


async def test_a_job_whose_agent_died_before_it_noted_the_id_is_found_by_its_tag(desk: Desk):
    launch = a_launch(a_request("sh", "-c", f"echo ran >> {desk.directory}/runs"))
    native = await desk.backend.submit(launch)
    record = files(desk).record()
    files(desk).put(replace(record, native=""))  # as it lies on disk between sbatch and the note
    await desk.again()
    found = await desk.backend.lookup(launch.tag)
    assert isinstance(found, JobFound)
    assert found.update.native == native
    assert await desk.backend.submit(launch) == native
    await desk.until(launch.tag, Phase.ENDED)
    assert (desk.directory / "runs").read_text() == "ran\n"


async def test_a_job_whose_agent_died_before_sbatch_was_never_submitted_and_can_be(desk: Desk):
    launch = a_launch(a_request("true"))
    await desk.backend.submit(a_launch(a_request("true"), job=2))
    record = replace(files(desk, "rb-2-1").record(), native="", key="never")
    files(desk).create(record)  # as it lies on disk before sbatch is called
    files(desk).write(launch, record, ())
    await desk.again()
    assert await desk.backend.lookup(launch.tag) == Absent(never=True)
    await desk.backend.submit(launch)
    assert (await desk.until(launch.tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_of_two_submissions_to_slurm_one_runs(desk: Desk, fragile: SlurmCluster):
    launch = a_launch(a_request("sh", "-c", f"echo ran >> {desk.directory}/runs; exit 4"))
    await desk.backend.submit(launch)
    job = files(desk)
    comment = f"rainbow:{desk.backend.settings.cluster}:{job.tag}:{job.record().key}"
    again = fragile.call(
        *("sbatch", "--parsable", f"--job-name={job.tag}", f"--comment={comment}", "--output=/dev/null"),
        str(job.script),
    ).strip()
    update = await desk.until(launch.tag, Phase.ENDED)
    await desk.wait(lambda: again not in fragile.call("squeue", "-h", "-o", "%i").split())
    assert (await desk.until(launch.tag, Phase.ENDED)).result.exit_code == update.result.exit_code == 4
    assert (desk.directory / "runs").read_text() == "ran\n"


async def controller_is_up(desk: Desk) -> bool:
    """Return True if the controller answers."""
    return "UP" in (await desk.backend.commands.run("scontrol", "ping")).out.split()


async def test_a_stopped_controller_means_unknown_and_nothing_is_declared_dead(desk: Desk, fragile: SlurmCluster):
    gate = desk.directory / "go"
    tag = await desk.submit(a_request("sh", "-c", f"echo up; while [ ! -e {gate} ]; do sleep 0.05; done; exit 5"))
    await desk.until_output(tag, b"up")
    fragile.stop_controller()
    try:
        with pytest.raises(Unavailable):
            await desk.backend.poll()
        assert isinstance(await desk.backend.lookup(tag), Unknown)
        with pytest.raises(Unavailable):
            await desk.backend.submit(a_launch(a_request("true"), job=2))
        with pytest.raises(Unavailable):
            await desk.backend.bid(a_request("true"))
        assert await desk.out(tag) == b"up\n"
    finally:
        fragile.start_controller()
    await desk.wait(lambda: controller_is_up(desk))
    await desk.until(tag, Phase.RUNNING)
    gate.touch()
    assert (await desk.until(tag, Phase.ENDED)).result.exit_code == 5


async def test_a_killed_controller_that_starts_a_job_again_does_not_make_it_run_twice(
    desk: Desk, fragile: SlurmCluster
):
    """Its last saved state is seconds old: it forgets the job, or starts it a second time under the same id."""
    tag = await desk.submit(a_request("sh", "-c", f"echo ran >> {desk.directory}/runs; echo up; exec sleep 60"))
    await desk.until_output(tag, b"up")
    fragile.stop_controller(signal.SIGKILL)
    fragile.start_controller()
    await desk.run(a_request("true"), job=2)  # gets the id of the first if that is forgotten, and may be killed for it
    assert not isinstance(await desk.backend.lookup(tag), Absent)
    assert (desk.directory / "runs").read_text() == "ran\n"
    await desk.backend.cancel(tag)


async def test_jobs_that_a_killed_controller_forgets_or_ends_are_accounted_for_soon(
    desk: Desk, fragile: SlurmCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rainbow_sched.agent.backends.common.batch_script.HEARTBEAT_SECONDS", 1)
    monkeypatch.setattr(desk.backend._lost_jobs, "_settle", 5.0)
    monkeypatch.setattr("rainbow_sched.agent.backends.slurm.files.SETTLE_SECONDS", 5.0)
    note = f"echo $RAINBOW_JOB_ID >> {desk.directory}/runs; echo up; exec sleep 8"
    tags = [await desk.submit(a_request("sh", "-c", note, duration=3600.0), job=job) for job in (1, 2, 3)]
    for tag in tags:
        await desk.until_output(tag, b"up")
    fragile.stop_controller(signal.SIGKILL)
    fragile.start_controller()
    for tag in tags:
        async with asyncio.timeout(60):
            while not isinstance(found := await desk.backend.lookup(tag), JobFound) or found.update.result is None:
                await asyncio.sleep(0.2)  # Slurm tells nobody
        assert found.update.result.failure in (None, Failure.UNKNOWN)
    assert sorted((desk.directory / "runs").read_text().split()) == ["1", "2", "3"]


async def test_a_name_that_slurm_refuses_is_refused_for_good(desk: Desk):
    request = replace(a_request("true"), options={"account": "x", "qos": "no such"})
    assert "qos" in await desk.backend.check(request)
    with pytest.raises(Invalid, match="Slurm refuses"):
        await desk.backend.submit(a_launch(replace(a_request("true"), options={"reservation": "nobody"})))
    assert await desk.backend.lookup("rb-1-1") == Absent(never=True)
