"""Groups whose slots are alike run as one on Flux, on the hosts of each; judged by what Flux gave them."""

from __future__ import annotations

from rainbow_sched.agent.backends.flux.jobspec import ONE_GROUP
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task
from rainbow_sched.protocol.messages import AllowedHosts
from tests.contract.flux.conftest import Flux
from tests.contract.flux.test_flux_nodes import allocation

NVME = (Requirement("io", (Equals("kind", "nvme"),)),)
FAST = (Requirement("clock", (Equals("fast", "yes"),)),)
SAY = Task(command=("/bin/sh", "-c", "echo $RAINBOW_TASK_RANK of $RAINBOW_TASKS"))


def nodes(name: str, count: int = 1, *, cores: int = 1, **fields: object) -> Group:
    inside = (Level(type="core", count=Count(cores)),)
    return Group(name=name, levels=(Level(type="node", count=Count(count), label=name, inside=inside, **fields),))


def job(*groups: Group, tasks: tuple[Task, ...] = (SAY,)) -> Request:
    return Request(groups=groups, tasks=tasks, duration=600.0)


def bound(*hosts: tuple[str, ...]) -> AllowedHosts:
    return AllowedHosts(tuple(GroupHosts(n, each) for n, each in enumerate(hosts) if each), checked=True)


async def test_groups_that_are_alike_run_on_the_hosts_of_each(flux: Flux):
    request = job(nodes("x", requires=NVME), nodes("y", requires=FAST))
    tags = [await flux.submit(request, job=n, allowed=bound(("a2",), ("g1",))) for n in (1, 2, 3)]
    for tag in tags:
        update = await flux.until(tag, Phase.ENDED)
        assert update.result.state is AttemptState.SUCCEEDED
        given = await allocation(flux, update.native)
        assert set(given) == {"a2", "g1"}
        assert {part["core"] for part in given.values()} == {1}
        assert set(expand(update.nodes)) == {"a2", "g1"}
        assert sorted((await flux.out(tag)).decode().splitlines()) == ["0 of 2", "1 of 2"]


async def test_slots_of_several_groups_share_what_there_is(flux: Flux):
    core = Level(type="core", count=Count(1))
    groups = [
        Group(name=name, levels=(Level(type="node", shared=True, count=Count(many), inside=(core,)),))
        for name, many in (("x", 2), ("y", 1))
    ]
    update = await flux.run(job(*groups), allowed=bound(("a1",), ("a1",)))
    assert update.result.state is AttemptState.SUCCEEDED
    given = await allocation(flux, update.native)
    assert {name: part["core"] for name, part in given.items()} == {"a1": 3}


async def test_what_flux_cannot_be_told_of_groups_is_refused_with_the_reason(flux: Flux):
    assert flux.backend.node_rules.one_group == ONE_GROUP
    shapes = await flux.backend.check(job(nodes("x"), nodes("y", cores=2)), bound())
    assert shapes == f"the job has 2 groups of resources; {ONE_GROUP}, and its groups have slots of different shapes"
    loose = await flux.backend.check(job(nodes("x"), nodes("y")), bound(("a1", "a2"), ("g1",)))
    assert "its slots cannot be assigned to the allowed nodes of each group" in loose
    assert await flux.backend.check(job(nodes("x"), nodes("y")), bound()) is None
