"""The warm process that starts runners: it may die at any moment, and every job still runs once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.local.backend import LocalBackend
from rainbow_sched.agent.backends.local.wrapper import start_time, starter_command
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.model.attempt import AttemptState
from tests.support.backends import Desk, a_graph, a_request


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(cluster="here", directory=tmp_path / "state", graph=a_graph(8))
    desk = Desk(lambda: LocalBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    await desk.backend.close()


def starter(desk: Desk) -> int:
    """Its process id."""
    assert isinstance(desk.backend, LocalBackend)
    process = desk.backend._runners._starter
    return 0 if process is None else process.pid


async def test_jobs_run_once_though_the_starter_is_killed_again_and_again(desk: Desk):
    note = f"echo $RAINBOW_JOB_ID >> {desk.directory}/runs"
    tags = []
    for job in range(1, 31):
        tags.append(await desk.submit(a_request("sh", "-c", note), job=job))
        if job % 3 == 0 and starter(desk):
            os.kill(starter(desk), signal.SIGKILL)
    ended = [await desk.until(tag, Phase.ENDED) for tag in tags]
    assert {update.result.state for update in ended} == {AttemptState.SUCCEEDED}
    assert sorted((desk.directory / "runs").read_text().split(), key=int) == [str(job) for job in range(1, 31)]


async def test_a_running_job_outlives_the_starter_and_the_agent(desk: Desk):
    gate = desk.directory / "go"
    tag = await desk.submit(a_request("sh", "-c", f"echo up; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"))
    await desk.until_output(tag, b"up")
    gone = starter(desk)
    await desk.again()
    async with asyncio.timeout(10):
        while start_time(gone) is not None:
            await asyncio.sleep(0)
    gate.touch()
    assert (await desk.until(tag, Phase.ENDED)).result.exit_code == 5


async def test_a_job_that_is_cancelled_while_its_runner_is_being_started_was_cancelled(desk: Desk):
    for job in range(1, 25):
        tag = await desk.submit(a_request("sleep", "60"), job=job)
        for _ in range(job):  # at another point of its start each time
            await asyncio.sleep(0.0005)
        await desk.backend.cancel(tag)
        await desk.backend.poll()
        assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.CANCELLED


def test_a_starter_leaves_when_nobody_is_left_to_ask_and_a_runner_says_what_went_wrong(tmp_path: Path):
    (tmp_path / "rb-1-1").mkdir()  # there is nothing in it to run
    done = subprocess.run(
        starter_command(str(tmp_path)), input=b"rb-1-1\n", stdout=subprocess.PIPE, timeout=20, check=True
    )
    tag, pid = done.stdout.split()
    assert (tag, int(pid) > 0) == (b"rb-1-1", True)
    end = time.monotonic() + 20
    while not (log := tmp_path / "rb-1-1" / "runner.log").exists() or "launch.json" not in log.read_text():
        assert time.monotonic() < end, "nothing was said"
        time.sleep(0.01)  # a process that is not our child is awaited
