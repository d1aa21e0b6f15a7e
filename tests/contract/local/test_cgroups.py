"""Jobs in control groups of their own where the machine lets us, and within their memory where it does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.local.backend import LocalBackend
from rainbow_sched.agent.backends.local.cgroups import NOWHERE, CgroupParent, JobCgroup, find_cgroup_parent
from rainbow_sched.agent.backends.local.files import JobFiles
from rainbow_sched.agent.backends.local.wrapper import MEMORY_CHECK_SECONDS
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from tests.support.backends import Desk, a_graph, a_request, alive, end

HOG = "import time; x = bytearray(b'x') * (%d << 20); print('got it', flush=True); time.sleep(60)"


def mounted() -> Path | None:
    """Where cgroup v2 is mounted here, if anywhere."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return next((Path(line.split()[1]) for line in lines if " cgroup2 " in line), None)


@pytest.fixture
def grounds() -> Iterator[Path]:
    """A real group that was given to us, removed with all that is in it."""
    top = mounted()
    if top is None or not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip("optional: there is no cgroup v2 here that we may write to")
    path = top / f"rainbow-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError:
        pytest.skip("optional: no group can be made here")
    yield path
    for group in path.iterdir():
        if group.is_dir():
            JobCgroup(group).end()
            JobCgroup(group).remove()
    path.rmdir()


@contextlib.asynccontextmanager
async def a_desk(directory: Path, cgroup: str) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster="here", directory=directory / "state", graph=a_graph(), options={"cgroup": cgroup}
    )
    desk = Desk(lambda: LocalBackend(settings), directory)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()


def asking(memory: int, *command: str) -> Request:
    """`command` with so many MiB."""
    inside = (Level(type="core"), Level(type="memory", count=Count(memory), unit="MiB"))
    level = Level(type="node", shared=True, abstract=True, inside=inside)
    return Request(groups=(Group(levels=(level,)),), tasks=(Task(command=command),))


async def test_a_job_has_a_group_of_its_own_that_goes_with_it(grounds: Path, tmp_path: Path):
    async with a_desk(tmp_path, str(grounds)) as desk:
        assert "cgroup" in (await desk.backend.facts()).state["isolation"]
        stray = "cat /proc/self/cgroup; (setsid sleep 60 >/dev/null 2>&1 & echo stray $!)"
        update = await desk.run(a_request("sh", "-c", stray))
        said = (await desk.out(update.tag)).decode()
        assert f"0::/{grounds.name}/rb-1-1" in said
        assert update.result.state is AttemptState.SUCCEEDED
        assert not alive(int(said.split("stray")[1]))
        assert not (grounds / "rb-1-1").exists()


async def test_what_a_killed_runner_left_in_the_group_is_ended_by_the_agent(grounds: Path, tmp_path: Path):
    async with a_desk(tmp_path, str(grounds)) as desk:
        tag = await desk.submit(a_request("sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!; wait"))
        await desk.until_output(tag, b"\n")
        stray = int(await desk.out(tag))
        end(JobFiles(tmp_path / "state" / "jobs", tag).runner())
        result = (await desk.until(tag, Phase.ENDED)).result
        assert result.failure is Failure.UNKNOWN
        async with asyncio.timeout(5):
            while alive(stray):
                await asyncio.sleep(0)
        assert not (grounds / tag).exists()


async def test_a_job_that_the_kernel_ended_for_its_memory_says_so(tmp_path: Path):
    groups = tmp_path / "groups"  # plain files stand for the kernel's
    (groups / "rb-1-1").mkdir(parents=True)
    (groups / "rb-1-1" / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    async with a_desk(tmp_path, "off") as desk:
        assert isinstance(desk.backend, LocalBackend)
        desk.backend.grounds = CgroupParent(str(groups), ("memory",))
        update = await desk.run(asking(200, "sh", "-c", "kill -9 $$"))
        assert (groups / "rb-1-1" / "memory.max").read_text() == str(200 << 20)
        assert (groups / "rb-1-1" / "cgroup.procs").read_text() == "0"
    assert (update.result.state, update.result.failure) == (AttemptState.FAILED, Failure.MEMORY)
    assert "200 MiB" in update.result.reason


def hogs(memory: int) -> Request:
    """Two processes of 120 MiB each, none of which is over the limit alone."""
    hog = f'"{sys.executable}" -c "{HOG % 120}"'
    return asking(memory, "sh", "-c", f"{hog} & {hog} & wait")


async def test_without_a_group_the_processes_of_a_job_together_stay_within_its_memory(tmp_path: Path):
    async with a_desk(tmp_path, "off") as desk:
        assert (await desk.backend.facts()).state["isolation"] == "process group"
        result = (await desk.run(hogs(200))).result
    assert (result.state, result.failure) == (AttemptState.FAILED, Failure.MEMORY)
    assert "200 MiB" in result.reason


async def test_a_job_within_its_memory_is_left_alone(tmp_path: Path):
    async with a_desk(tmp_path, "off") as desk:
        tag = await desk.submit(hogs(400))
        await desk.until_output(tag, b"got it\ngot it\n")
        await asyncio.sleep(2 * MEMORY_CHECK_SECONDS)  # it is looked at meanwhile, by another process
        await desk.backend.cancel(tag)
        assert (await desk.until(tag, Phase.ENDED)).result.state is AttemptState.CANCELLED


async def test_a_job_that_could_not_get_memory_says_that_it_was_memory(tmp_path: Path):
    async with a_desk(tmp_path, "off") as desk:
        update = await desk.run(asking(200, sys.executable, "-c", "x = bytearray(300 << 20)"))
        other = await desk.run(asking(200, "sh", "-c", "echo no >&2; exit 1"), job=2)
    assert (update.result.failure, update.result.exit_code) == (Failure.MEMORY, 1)
    assert other.result.failure is Failure.EXIT


def test_the_group_of_a_unit_is_used_only_if_the_agent_has_a_subgroup_of_it(tmp_path: Path):
    proc, mount = tmp_path / "proc", tmp_path / "mount"
    proc.mkdir()
    (proc / "mounts").write_text(f"cgroup2 {mount} cgroup2 rw 0 0\n")
    (proc / "cgroup").write_text("0::/user.slice/rainbow.service\n")
    assert find_cgroup_parent("auto", proc) == NOWHERE
    assert find_cgroup_parent("auto", tmp_path / "nothing") == NOWHERE
    assert find_cgroup_parent("off", proc) == NOWHERE
    assert find_cgroup_parent(str(tmp_path / "absent"), proc) == NOWHERE


def test_a_place_for_groups_that_was_named_and_is_none_is_refused(tmp_path: Path):
    options = {"cgroup": str(tmp_path / "absent")}
    with pytest.raises(Invalid, match="user, or auto or off"):
        LocalBackend(BackendSettings(cluster="here", directory=tmp_path, graph=a_graph(), options=options))


def test_a_delegated_unit_is_tried_and_used(grounds: Path, tmp_path: Path):
    own = grounds / "agent"
    own.mkdir()
    (tmp_path / "mounts").write_text(f"cgroup2 {grounds.parent} cgroup2 rw 0 0\n")
    (tmp_path / "cgroup").write_text(f"0::/{grounds.name}/agent\n")
    assert find_cgroup_parent("auto", tmp_path).path == str(grounds)
