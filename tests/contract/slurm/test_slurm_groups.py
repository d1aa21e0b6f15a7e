"""Jobs of several groups on a real Slurm: each group gets its own resources on its own hosts for its own tasks."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from rainbow_sched.agent.backends.slurm.files import SlurmFiles
from rainbow_sched.agent.core.values import JobFound, Phase
from rainbow_sched.discovery.slurm import SHOW_NODES, parse_nodes, slurm_graph
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task
from rainbow_sched.protocol.messages import AllowedHosts
from tests.support.backends import Desk
from tests.support.slurm import Nodes, SlurmCluster, running

SAY = "echo $RAINBOW_TASK_RANK $SLURMD_NODENAME {}"
_FIELD = re.compile(r"([\w/:.]+)=(\S*)")
_SHOWN = ("NumNodes", "NumCPUs", "MinCPUsNode", "MinMemoryNode", "MinMemoryCPU", "ExcNodeList", "Features", "Partition")
_SHOWN += ("OverSubscribe", "TresPerNode", "TresPerTask", "TresPerJob", "TimeLimit", "Requeue", "Comment")


@pytest.fixture(scope="module")
def builtin() -> Iterator[SlurmCluster]:
    """A Slurm whose scheduler starts no heterogeneous jobs."""
    yield from running(SlurmCluster("builtin", [Nodes(prefix="b", count=2)], settings="SchedulerType=sched/builtin\n"))


@pytest.fixture
async def desk(rich: SlurmCluster, tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(
        cluster=re.sub(r"[^a-z0-9]+", "-", tmp_path.name).strip("-"),
        directory=tmp_path / "state",
        graph=slurm_graph("rich", parse_nodes(rich.call(*SHOW_NODES)), {}),
        options={"conf": str(rich.conf), "interval": "0.3", "facts_interval": "0", "bid_kept": "0"},
    )
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)


def nodes(name: str, count: int = 1, *, cores: int = 1, memory: int = 0, gpus: int = 0, **fields: object) -> Group:
    """So many distinct nodes, each with a slot."""
    inside = [Level(type="core", count=Count(cores))]
    inside += [Level(type="memory", count=Count(memory), unit="MiB")] if memory else []
    inside += [Level(type="gpu", count=Count(gpus))] if gpus else []
    return Group(
        name=name, levels=(Level(type="node", count=Count(count), label=name, inside=tuple(inside), **fields),)
    )


def whole(name: str, count: int = 1) -> Group:
    """Whole nodes."""
    return Group(name=name, levels=(Level(type="node", count=Count(count), label=name),))


def slots(name: str, count: int, *, cores: int = 1, memory: int = 0) -> Group:
    """Slots that may share nodes."""
    inside = [Level(type="core", count=Count(cores))]
    inside += [Level(type="memory", count=Count(memory), unit="MiB")] if memory else []
    return Group(name=name, levels=(Level(type="node", count=Count(count), shared=True, inside=tuple(inside)),))


def task(group: str, text: str = SAY, **fields: object) -> Task:
    return Task(command=("sh", "-c", text.format(group)), group=group, **fields)


def job(*groups: Group, tasks: tuple[Task, ...] | None = None, **fields: object) -> Request:
    made = tuple(task(group.name) for group in groups) if tasks is None else tasks
    return Request(groups=groups, tasks=made, duration=600.0, **fields)


def bound(*hosts: tuple[str, ...]) -> AllowedHosts:
    """Hosts by group; none: any."""
    return AllowedHosts(tuple(GroupHosts(n, each) for n, each in enumerate(hosts) if each), checked=True)


def shown(rich: SlurmCluster, native: str) -> list[dict[str, str]]:
    """The components of a job as Slurm shows them, in its own order."""
    lines = rich.call("scontrol", "-o", "-d", "show", "job", native).splitlines()
    found = [dict(_FIELD.findall(line)) for line in lines]
    return sorted(found, key=lambda one: int(one["JobId"]))


def where(text: bytes) -> dict[str, list[str]]:
    """By group the hosts that its tasks named."""
    found: dict[str, list[str]] = {}
    for line in text.decode().splitlines():
        _, host, group = line.split()
        found.setdefault(group, []).append(host)
    return found


async def test_two_groups_of_different_shapes_run_on_their_own_hosts(desk: Desk, rich: SlurmCluster):
    request = job(nodes("big", 2, cores=3, memory=500), nodes("fast", 1, cores=2, gpus=1))
    update = await desk.run(request, allowed=bound(("a1", "a3"), ("g2",)))
    assert update.result.state is AttemptState.SUCCEEDED, (update, await desk.out(update.tag, "stderr"))
    assert {name: set(on) for name, on in where(await desk.out(update.tag)).items()} == {
        "big": {"a1", "a3"},
        "fast": {"g2"},
    }
    first, second = shown(rich, update.native)
    by_nodes = {one["NumNodes"]: one for one in (first, second)}
    assert (by_nodes["2"]["NodeList"], by_nodes["1"]["NodeList"]) == ("a[1,3]", "g2")
    assert (by_nodes["2"]["MinMemoryNode"], by_nodes["2"]["NumCPUs"]) == ("500M", "6")
    assert "gpu:1" in by_nodes["1"]["TresPerNode"]
    assert {one["Requeue"] for one in (first, second)} == {"0"}
    assert sorted(expand(update.nodes)) == ["a1", "a3", "g2"]


REQUESTS = {
    "nodes": (nodes("n", 1, cores=2, memory=300), ()),
    "bound": (nodes("b", 1, cores=1), ("a2", "a3")),
    "slots": (slots("s", 3, memory=70), ()),
    "plain": (slots("p", 2), ()),
    "whole": (whole("w"), ("a1", "g1")),
    "gpu": (nodes("g", 1, gpus=1), ("g1", "g2")),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(REQUESTS, 2)))
async def test_each_component_is_what_its_group_alone_would_be(desk: Desk, rich: SlurmCluster, one: str, other: str):
    """The oracle is each group submitted by itself: nothing of one component may colour another."""
    groups, hosts = zip(REQUESTS[one], REQUESTS[other], strict=True)
    blocker = await desk.submit(job(whole("all", 5), tasks=(task("all", "sleep 60"),)), job=99)
    await desk.until(blocker, Phase.RUNNING)
    alone = []
    for number, (group, on) in enumerate(zip(groups, hosts, strict=True), start=1):
        tag = await desk.submit(job(group), job=number, allowed=bound(on))
        [about] = shown(rich, (await desk.until(tag, Phase.SUBMITTED)).native)
        alone.append(about)
    tag = await desk.submit(job(*groups), job=3, allowed=bound(*hosts))
    together = shown(rich, (await desk.until(tag, Phase.SUBMITTED)).native)
    assert len(together) == 2

    def essence(about: dict[str, str]) -> dict[str, str]:
        found = {name: about.get(name, "").replace("(null)", "") for name in _SHOWN[:-1]}
        if about.get("ReqNodeList", "(null)") != "(null)":  # alone it is asked for by name
            found["ExcNodeList"] = ""
        return found

    for about in alone:
        assert essence(about) in [essence(part) for part in together], (about, together)


async def test_random_groups_get_what_each_asks_for_on_its_hosts(desk: Desk, rich: SlurmCluster):
    """The oracle is the allocation as Slurm shows it, and where each task says that it ran."""
    rng = Random(20261119)
    cases = []
    while len(cases) < 8:
        groups, hosts = [], []
        free = ["a1", "a2", "a3", "g1", "g2"]
        rng.shuffle(free)
        for number in range(rng.randint(2, 3)):
            on = tuple(sorted(free.pop() for _ in range(min(len(free), rng.randint(1, 2)))))
            if not on:
                break
            gpus = 1 if all(name.startswith("g") for name in on) and rng.random() < 0.5 else 0
            count = rng.randint(1, len(on))
            groups.append(nodes(f"x{number}", count, cores=rng.randint(1, 4), memory=rng.choice((0, 300)), gpus=gpus))
            hosts.append(on)
        if len(groups) > 1:
            cases.append((groups, hosts))
    tags = [
        await desk.submit(job(*groups), job=number, allowed=bound(*hosts))
        for number, (groups, hosts) in enumerate(cases, start=1)
    ]
    for tag in tags:
        await desk.until(tag, Phase.ENDED, seconds=120)
    for tag, (groups, hosts) in zip(tags, cases, strict=True):
        found = await desk.backend.lookup(tag)
        assert isinstance(found, JobFound)
        assert found.update.result.state is AttemptState.SUCCEEDED, found
        ran = where(await desk.out(tag))
        parts = shown(rich, found.update.native)
        assert sorted(expand(found.update.nodes)) == sorted(n for part in parts for n in expand(part["NodeList"]))
        for group, on in zip(groups, hosts, strict=True):
            level = group.levels[0]
            assert set(ran[group.name]) <= set(on)
            [part] = [part for part in parts if set(expand(part["NodeList"])) <= set(on)]
            assert len(expand(part["NodeList"])) == level.count.min
            assert int(part["NumCPUs"]) >= level.count.min * level.inside[0].count.min


async def test_a_task_without_a_group_runs_in_every_slot_of_all_groups(desk: Desk):
    request = job(slots("x", 2), nodes("y", 1, cores=2), tasks=(Task(command=("sh", "-c", SAY.format("t"))),))
    update = await desk.run(request, allowed=bound(("a2",), ("g1",)))
    assert update.result.state is AttemptState.SUCCEEDED, await desk.out(update.tag, "stderr")
    lines = sorted((await desk.out(update.tag)).decode().splitlines())
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    assert sorted(line.split()[1] for line in lines) == ["a2", "a2", "g1"]


async def test_a_script_runs_once_in_the_first_group_and_can_reach_the_others(desk: Desk):
    text = "#!/bin/sh\necho $SLURMD_NODENAME\nsrun --het-group=0,1 -n1 -l sh -c 'echo $SLURMD_NODENAME' | sort\n"
    request = job(nodes("x"), nodes("y", cores=2), tasks=(Task(script=text),))
    update = await desk.run(request, allowed=bound(("a2",), ("g1",)))
    assert update.result.state is AttemptState.SUCCEEDED, await desk.out(update.tag, "stderr")
    assert (await desk.out(update.tag)).decode().splitlines() == ["a2", "0: a2", "1: g1"]


async def test_a_word_that_separates_components_for_srun_is_a_word_of_the_command(desk: Desk):
    commands = (Task(command=("echo", "a", ":", "b"), group="x"), Task(command=("echo", "c", ":", "d"), group="y"))
    update = await desk.run(job(nodes("x"), nodes("y"), tasks=commands))
    assert update.result.state is AttemptState.SUCCEEDED
    assert sorted((await desk.out(update.tag)).decode().splitlines()) == ["a : b", "c : d"]
    single = await desk.run(job(slots("x", 2), tasks=commands[:1]), job=2)
    assert (await desk.out(single.tag)).decode().splitlines() == ["a : b", "a : b"]


@pytest.mark.parametrize(("codes", "expected"), [((0, 3), 3), ((5, 0), 5), ((2, 4), 4)])
async def test_the_worst_exit_code_of_all_groups_is_the_jobs(desk: Desk, codes: tuple[int, int], expected: int):
    tasks = (task("x", f"exit {codes[0]}"), task("y", f"exit {codes[1]}"))
    update = await desk.run(job(nodes("x"), nodes("y"), tasks=tasks))
    assert (update.result.state, update.result.exit_code) == (AttemptState.FAILED, expected)


async def test_a_command_that_is_not_there_is_named(desk: Desk):
    update = await desk.run(job(nodes("x"), nodes("y"), tasks=(task("x"), Task(command=("no-such-thing",), group="y"))))
    assert (update.result.failure, update.result.exit_code) == (Failure.LAUNCH, 127)
    assert b"cannot start no-such-thing" in await desk.out(update.tag, "stderr")


@pytest.mark.parametrize("waits", [False, True])
async def test_a_cancel_ends_all_components(desk: Desk, rich: SlurmCluster, waits: bool):
    if waits:
        blocker = await desk.submit(job(whole("all", 5), tasks=(task("all", "sleep 60"),)), job=9)
        await desk.until(blocker, Phase.RUNNING)
    sleeping = (task("x", "sleep 300"), task("y", "sleep 300"))
    tag = await desk.submit(job(nodes("x"), nodes("y"), tasks=sleeping), allowed=bound(("a1",), ("a2",)))
    native = (await desk.until(tag, Phase.SUBMITTED if waits else Phase.RUNNING)).native
    await desk.backend.cancel(tag)
    update = await desk.until(tag, Phase.ENDED)
    assert update.result.state is AttemptState.CANCELLED
    await desk.wait(lambda: {one["JobState"] for one in shown(rich, native)} == {"CANCELLED"})


async def test_a_new_agent_finds_a_job_whose_submission_was_not_answered(desk: Desk, rich: SlurmCluster):
    """As after kill -9 between sbatch and its answer: the record has no id, and Slurm has the job."""
    sleeping = (task("x", "sleep 300"), task("y", "sleep 300"))
    request = job(nodes("x"), nodes("y"), tasks=sleeping)
    tag = await desk.submit(request, allowed=bound(("a1",), ("a2",)))
    native = (await desk.until(tag, Phase.RUNNING)).native
    files = SlurmFiles(desk.backend.root, tag)
    files.put(replace(files.record(), native=""))
    await desk.again()
    found = await desk.backend.lookup(tag)
    assert isinstance(found, JobFound)
    assert (found.update.native, found.update.nodes) == (native, "a1,a2")
    assert await desk.submit(request, allowed=bound(("a1",), ("a2",))) == tag
    assert files.record().native == native
    assert len(rich.call("squeue", "-h", f"--name={tag}", "-o", "%i").split()) == 2


@pytest.mark.parametrize("component", [0, 1])
async def test_a_job_with_a_component_on_wrong_nodes_is_returned_and_no_command_is_started(
    desk: Desk, rich: SlurmCluster, component: int
):
    blocker = await desk.submit(job(whole("all", 5), tasks=(task("all", "sleep 60"),)), job=9)
    await desk.until(blocker, Phase.RUNNING)
    marker = desk.directory / "ran"
    tasks = (task("x", f"touch {marker}"), task("y", f"touch {marker}"))
    tag = await desk.submit(job(nodes("x"), nodes("y"), tasks=tasks), allowed=bound(("a1",), ("a2",)))
    native = (await desk.until(tag, Phase.SUBMITTED)).native
    rich.call("scontrol", "update", f"jobid={native}+{component}", "ExcNodeList=a[1-2],g[1-2]")
    await desk.backend.cancel(blocker)
    update = await desk.until(tag, Phase.ENDED)
    assert (update.result.state, update.result.code) == (AttemptState.RETURNED, WRONG_NODES)
    assert "it may run on a1 : a2 only" in update.result.reason
    assert "a3" in expand(update.nodes)
    assert not marker.exists()


async def test_facts_count_what_our_own_components_hold_as_ours(desk: Desk):
    sleeping = (task("x", "sleep 300"), task("y", "sleep 300"))
    request = job(nodes("x", cores=3, memory=400), nodes("y", cores=2, memory=300, gpus=1), tasks=sleeping)
    tag = await desk.submit(request, allowed=bound(("a1",), ("g1",)))
    await desk.until(tag, Phase.RUNNING)
    facts = await desk.backend.facts()
    assert not any(facts.used.values()), facts.used


async def test_what_cannot_be_said_by_component_is_refused(desk: Desk):
    both = (task("x"), task("x"), task("y"))
    reason = await desk.backend.check(job(nodes("x"), nodes("y"), tasks=both))
    assert reason == "Slurm runs one task in each group of resources; group 1 of this request has several"
    reason = await desk.backend.check(job(nodes("x"), nodes("y", cores=99)))
    assert "99 core" in reason
    named = job(nodes("x"), nodes("y"), options={"extra": "--nodelist=a1"})
    assert "must not name nodes in its extra options" in await desk.backend.check(named)


async def test_requirements_that_slurm_has_words_for_are_each_groups_own(desk: Desk):
    gpu = Requirement("partitions", (Equals("name", "gpu"),))
    request = job(nodes("x", requires=(Requirement("features", (Equals("name", "ib"),)),)), nodes("y", requires=(gpu,)))
    update = await desk.run(request, allowed=bound(("a1", "a2", "a3"), ("g1", "g2")))
    assert update.result.state is AttemptState.SUCCEEDED
    ran = where(await desk.out(update.tag))
    assert (ran["x"][0][0], ran["y"][0][0]) == ("a", "g")


async def test_a_bid_counts_all_components_and_the_hosts_of_each(desk: Desk):
    blocker = await desk.submit(replace(job(whole("w"), tasks=(task("w", "sleep 60"),)), hosts=("a1",)), job=9)
    await desk.until(blocker, Phase.RUNNING)
    request = replace(job(nodes("x"), nodes("y")), duration=60.0)
    async with asyncio.timeout(20):
        while (answer := await desk.backend.bid(request, bound(("a2",), ("a1",)))).start_p50 < 500:
            await asyncio.sleep(0.1)  # Slurm plans a moment later
    assert answer.yes
    assert (await desk.backend.bid(request, bound(("a2",), ("a3",)))).start_p50 == 0.0


async def test_a_slurm_that_starts_no_heterogeneous_jobs_says_so_before_anything_is_offered(
    builtin: SlurmCluster, tmp_path: Path
):
    settings = BackendSettings(cluster="b", directory=tmp_path / "state", options={"conf": str(builtin.conf)})
    desk = Desk(lambda: SlurmBackend(settings), tmp_path)
    assert desk.backend.node_rules.one_group == ""  # not asked yet
    await desk.backend.start()
    why = "Slurm starts heterogeneous jobs only with sched/backfill; this site uses sched/builtin"
    assert (desk.backend.node_rules.one_group, desk.backend.node_rules.groups) == (why, False)
    assert await desk.backend.check(job(nodes("x"), nodes("y"))) == why
    assert await desk.backend.check(job(nodes("x"))) is None
    with pytest.raises(RuntimeError, match=r"[Bb]atch job submission failed"):  # by its own word
        builtin.call("sbatch", "-n1", ":", "-n1", "--wrap=true")


async def test_components_that_got_each_others_nodes_are_wrong(desk: Desk, rich: SlurmCluster):
    blocker = await desk.submit(job(whole("all", 5), tasks=(task("all", "sleep 60"),)), job=9)
    await desk.until(blocker, Phase.RUNNING)
    tag = await desk.submit(job(nodes("x"), nodes("y")), allowed=bound(("a1",), ("a2",)))
    native = (await desk.until(tag, Phase.SUBMITTED)).native
    for component, others in enumerate(("a1,a3,g[1-2]", "a[2-3],g[1-2]")):
        rich.call("scontrol", "update", f"jobid={native}+{component}", f"ExcNodeList={others}")
    await desk.backend.cancel(blocker)
    update = await desk.until(tag, Phase.ENDED)
    assert (update.result.state, update.result.code) == (AttemptState.RETURNED, WRONG_NODES)
    assert update.nodes == "a2,a1"
    assert await desk.out(tag) == b""


async def test_a_time_limit_ends_the_tasks_of_all_groups(desk: Desk, rich: SlurmCluster):
    sleeping = (task("x", "sleep 300"), task("y", "sleep 300"))
    request = replace(job(nodes("x"), nodes("y"), tasks=sleeping), duration=2.0)
    update = await desk.run(request)
    assert (update.result.state, update.result.failure) == (AttemptState.FAILED, Failure.TIME_LIMIT)
    await desk.wait(lambda: {one["JobState"] for one in shown(rich, update.native)} <= {"COMPLETED", "FAILED"})


async def test_it_is_what_a_native_heterogeneous_job_would_be(desk: Desk, rich: SlurmCluster):
    """The same two groups as a user would write them for sbatch: the same nodes, cores and places of tasks."""
    text = "srun --het-group=0 -n2 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME big' : "
    text += "--het-group=1 -n1 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME fast'"
    script = desk.directory / "native.sh"
    script.write_text(f"#!/bin/sh\nunset SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK\n{text}\n")
    first = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=3", "--mem=500M", "--exclude=a2,g[1-2]")
    second = ("--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=400M", "--exclude=a[1-3],g1")
    more = ("--threads-per-core=1", "--gres=gpu:1", "--time=10")
    output = desk.directory / "native.out"
    native = rich.call(
        *(
            "sbatch",
            "--parsable",
            "--wait",
            f"--output={output}",
            "--error=/dev/null",
            "--time=10",
            "--threads-per-core=1",
        ),
        *(*first, ":", *second, *more, str(script)),
    ).strip()
    groups = nodes("big", 2, cores=3, memory=500), nodes("fast", 1, cores=2, memory=400, gpus=1)
    update = await desk.run(job(*groups), allowed=bound(("a1", "a3"), ("g2",)))
    assert update.result.state is AttemptState.SUCCEEDED, await desk.out(update.tag, "stderr")
    assert sorted((await desk.out(update.tag)).splitlines()) == sorted(output.read_bytes().splitlines())
    for ours, theirs in zip(shown(rich, update.native), shown(rich, native), strict=True):
        names = ("NodeList", "NumNodes", "NumCPUs", "NumTasks", "MinMemoryNode", "TresPerNode")
        assert {name: ours.get(name) for name in names} == {name: theirs.get(name) for name in names}
