"""What only the local backend promises: where jobs run, what they leave behind, and who runs them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.agent.backends import BackendSettings, load_backend
from rainbow_sched.agent.backends.common.launches import slots
from rainbow_sched.agent.backends.local import wrapper
from rainbow_sched.agent.backends.local.files import JobFiles
from rainbow_sched.agent.backends.local.machine import Machine, Place
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.host import host_graph, host_subsystems
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from tests.support.backends import Desk, a_graph, a_launch, a_request, alive, end

RUN_ONE = """
import sys
from pathlib import Path
from rainbow_sched.agent.backends.local import wrapper
wrapper.CONTACT_CHECK_SECONDS = 0.05
sys.exit(wrapper.main(Path(sys.argv[1])))
"""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(cluster="here", directory=tmp_path / "state", graph=a_graph())
    desk = Desk(lambda: load_backend("local")(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()


def files(desk: Desk, tag: str) -> JobFiles:
    return JobFiles(desk.directory / "state" / "jobs", tag)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: there is nothing to choose from")
async def test_jobs_side_by_side_are_bound_to_different_cores(desk: Desk):
    show = ("sh", "-c", "grep Cpus_allowed_list /proc/self/status; exec sleep 60")
    first, second = await desk.submit(a_request(*show), job=1), await desk.submit(a_request(*show), job=2)
    await desk.until_output(first, b"\n")
    await desk.until_output(second, b"\n")
    assert await desk.out(first) != await desk.out(second)


async def test_a_job_cannot_use_more_memory_than_it_asked_for(desk: Desk):
    code = "x = bytearray(300 << 20); print('got it')"
    memory = Level(type="memory", count=Count(200), unit="MiB")
    level = Level(type="node", shared=True, abstract=True, inside=(Level(type="core"), memory))
    request = Request(groups=(Group(levels=(level,)),), tasks=(Task(command=(sys.executable, "-c", code)),))
    update = await desk.run(request)
    assert update.result.state is AttemptState.FAILED
    assert b"MemoryError" in await desk.out(update.tag, "stderr")


async def test_what_a_job_leaves_behind_is_ended_with_it(desk: Desk):
    stray = "setsid sleep 60 & echo $!"
    update = await desk.run(a_request("sh", "-c", stray))
    assert update.result.state is AttemptState.SUCCEEDED
    assert not alive(int(await desk.out(update.tag)))


async def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rainbow_sched.agent.backends.local.files.GRACE_SECONDS", 0.2)
    tag = await desk.submit(a_request("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"))
    await desk.until_output(tag, b"up")
    await desk.backend.cancel(tag)
    result = (await desk.until(tag, Phase.ENDED)).result
    assert (result.state, result.exit_code) == (AttemptState.CANCELLED, 137)


async def test_a_job_whose_runner_is_killed_dies_with_it_and_has_an_unknown_outcome(desk: Desk):
    tag = await desk.submit(a_request("sh", "-c", "echo $$; exec sleep 60"))
    await desk.until_output(tag, b"\n")
    pid = int(await desk.out(tag))
    end(files(desk, tag).runner())
    result = (await desk.until(tag, Phase.ENDED)).result
    assert (result.state, result.failure) == (AttemptState.FAILED, Failure.UNKNOWN)
    async with asyncio.timeout(5):
        while alive(pid):
            await asyncio.sleep(0)


def test_two_runners_of_one_job_run_it_once(tmp_path: Path):
    one = JobFiles(tmp_path, "rb-1-1")
    one.create(a_launch(a_request("sh", "-c", f"echo ran >> {tmp_path}/runs")), dict(os.environ))
    one.put_place(Place(), Machine(a_graph()))
    runners = [subprocess.Popen([sys.executable, "-c", RUN_ONE, str(one.path)]) for _ in range(4)]
    assert sorted(runner.wait(20) for runner in runners) == [0, 3, 3, 3]
    assert (tmp_path / "runs").read_text() == "ran\n"


async def test_a_job_under_which_the_machine_restarted_is_blamed_on_the_machine(desk: Desk):
    one = files(desk, "rb-1-1")
    one.create(a_launch(a_request("true")), {})
    wrapper.write_whole(one.path / "started", {"pid": 1, "start": 1, "boot": "another", "at": 5.0})
    await desk.again()
    result = (await desk.until("rb-1-1", Phase.ENDED)).result
    assert (result.state, result.failure) == (AttemptState.FAILED, Failure.NODE)


async def test_a_submission_that_a_crash_cut_short_never_was(desk: Desk):
    (desk.directory / "state" / "jobs" / "rb-5-1").mkdir(parents=True)
    await desk.again()
    assert await desk.backend.poll() == ()


class _PowerCut(BaseException):
    """No handler of errors may catch it."""


@pytest.mark.parametrize("first", ["launch.json", "started"])
async def test_a_removal_that_was_cut_short_at_any_step_never_runs_the_job_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, first: str
):
    runs = desk.directory / "runs"
    cuts = 0
    for job in range(1, 20):
        tag = (await desk.run(a_request("sh", "-c", f"echo {job} >> {runs}"), job=job)).tag
        left = [job]  # so many steps of the removal are done, each time one more
        with monkeypatch.context() as patch:
            for step in ("rename", "unlink", "rmdir"):
                patch.setattr(os, step, _cut_after(left, getattr(os, step)))
            patch.setattr(os, "scandir", _in_order(os.scandir, first))
            try:
                files(desk, tag).remove()
            except _PowerCut:
                cuts += 1
            else:
                break
        await desk.again()
        for update in await desk.backend.poll():
            await desk.until(update.tag, Phase.ENDED)
    assert cuts > 5
    assert runs.read_text() == "".join(f"{number}\n" for number in range(1, cuts + 2))


def _cut_after(left: list[int], real: Callable[..., None]) -> Callable[..., None]:
    def step(*given: Any, **named: Any) -> None:
        if left[0] == 0:
            raise _PowerCut
        left[0] -= 1
        real(*given, **named)

    return step


def _in_order(real: Callable[..., Any], first: str) -> Callable[..., Any]:
    """A directory's entries come in any order; the worst one is chosen here."""

    @contextlib.contextmanager
    def scandir(*given: Any) -> Iterator[list[os.DirEntry[str]]]:
        with real(*given) as entries:
            yield sorted(entries, key=lambda entry: (entry.name != first, entry.name))

    return scandir


@pytest.mark.parametrize(("ago", "ends"), [(100.0, True), (1.0, False)])
async def test_a_job_that_may_run_elsewhere_ends_itself_when_even_its_agent_is_gone(desk: Desk, ago: float, ends: bool):
    contact = time.clock_gettime(time.CLOCK_BOOTTIME) - ago
    (desk.directory / "state" / "contact").write_text(json.dumps([wrapper.boot_id(), contact]))
    one = files(desk, "rb-1-1")
    one.create(replace(a_launch(a_request("sleep", "1")), guard=50.0), {})
    one.put_place(Place(), Machine(a_graph()))
    command = [sys.executable, "-c", RUN_ONE, str(one.path)]
    await (await asyncio.create_subprocess_exec(*command)).wait()
    assert one.result().state is (AttemptState.PREEMPTED if ends else AttemptState.SUCCEEDED)


async def test_a_job_that_cannot_be_started_now_waits_on(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    def none_left(*args: object, **more: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", none_left)
        tag = await desk.submit(a_request("true", cores=2))
        await desk.until(tag, Phase.SUBMITTED)
    assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.SUCCEEDED


async def test_jobs_have_folders_that_only_their_user_can_read(desk: Desk):
    tag = (await desk.run(a_request("true"))).tag
    assert files(desk, tag).path.stat().st_mode & 0o077 == 0


async def test_gpus_are_shown_to_the_job_that_has_them_and_to_no_other(tmp_path: Path, desk: Desk):
    assert await desk.run(a_request("sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]"))
    assert await desk.out("rb-1-1") == b"[]\n"
    one = files(desk, "rb-2-1")
    one.create(a_launch(a_request("true"), job=2), {})
    one.put_place(Place({}, (), (1, 3)), Machine(a_graph()))
    assert json.loads((one.path / "place.json").read_text())["environment"] == {"CUDA_VISIBLE_DEVICES": "1,3"}


async def test_durations_of_the_past_make_better_bids(desk: Desk):
    (desk.directory / "state" / "history").write_text("[1000.0, 50.0]\n" * 6)  # of 1000 s, 50 were used
    await desk.again()
    tag = await desk.submit(replace(a_request("sleep", "60", cores=2), duration=1000.0), job=9)
    await desk.until(tag, Phase.RUNNING)
    answer = await desk.backend.bid(replace(a_request("true"), duration=60.0))
    assert answer.start_p50 <= 50


async def test_a_job_that_ended_is_kept_in_the_record_of_the_past(desk: Desk):
    await desk.run(replace(a_request("true"), duration=1000.0))
    limit, took = json.loads((desk.directory / "state" / "history").read_text())
    assert limit == 1000.0
    assert 0 <= took < 60


def test_slots_are_counted_down_to_where_they_are_marked():
    slot = Level(type="node", count=Count(3), shared=True, inside=(Level(type="core", count=Count(2)),))
    rack = Level(type="rack", count=Count(2), inside=(slot,))
    assert slots(Group(levels=(rack,))) == 6
    assert slots(Group(levels=(Level(type="node", count=Count(4)),))) == 1


def test_this_machine_is_found_with_its_cores_memory_and_architecture():
    graph = host_graph("here")
    types = list(graph.types)
    assert types[:2] == ["cluster", "node"]
    assert graph.names[0] == "here"
    assert 1 <= types.count("core") <= len(os.sched_getaffinity(0))
    cpus = [cpu for i, data in graph.metadata.items() if types[i] == "core" for cpu in data["cpus"]]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
    assert graph.units[types.index("memory")] == "MiB"
    systems = {subsystem.name: subsystem for subsystem in host_subsystems(graph)}
    assert systems["os"].vertices[0].metadata["kernel"] == os.uname().release
    assert "arch" in systems


@pytest.mark.parametrize(("ago", "begins"), [(100.0, False), (49.5, True)], ids=["out of touch", "not yet"])
async def test_a_job_that_may_run_elsewhere_by_now_is_not_begun(desk: Desk, ago: float, begins: bool):
    contact = time.clock_gettime(time.CLOCK_BOOTTIME) - ago
    (desk.directory / "state" / "contact").write_text(json.dumps([wrapper.boot_id(), contact]))
    one = files(desk, "rb-1-1")
    one.create(replace(a_launch(a_request("sh", "-c", "echo begun; sleep 20")), guard=50.0), {})
    one.put_place(Place(), Machine(a_graph()))
    await (await asyncio.create_subprocess_exec(sys.executable, "-c", RUN_ONE, str(one.path))).wait()
    assert one.result().state is AttemptState.PREEMPTED
    assert ((one.path / "stdout").exists() and "begun" in (one.path / "stdout").read_text()) == begins
