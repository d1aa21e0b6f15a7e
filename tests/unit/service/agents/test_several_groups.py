"""Jobs of several groups go where the manager can be given them; elsewhere the reason is told beforehand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.job import Terms
from rainbow_sched.model.match import Fit
from rainbow_sched.service.scheduling.plan import PlacementQuery, build_question
from rainbow_sched.service.views import explanation, jobs
from tests.support.service import ADMIN, a_service, submit, with_cluster
from tests.unit.service.agents.test_host_binding import HOSTS, a_job, a_level, an_agent, hang, needs, offers, with_io

ONE_GROUP = "its manager takes slots of one kind"


async def test_a_manager_that_takes_one_group_is_offered_no_job_of_several_and_plan_says_why(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=5, cores=4)
        one_group = NodeRules(hosts=True, one_group=ONE_GROUP)
        agent = await an_agent(service, "east", one_group)
        several, single = a_job(a_level(), a_level(nodes=2)), a_job(a_level())
        why = f"the job has 2 groups of resources; {ONE_GROUP}"
        ask = PlacementQuery(several.request, Terms())
        assert build_question(service.core, ask).misfits == {"east": (Fit.NEVER, why)}
        assert json.loads(explanation.explanations(service.core, ask))["closed"] == {"east": why}
        [waits, placed] = await submit(service, several, single)
        assert (waits.cluster, placed.cluster) == ("", "east")
        assert why in waits.reason
        assert [ref.job for ref, _ in await offers(agent, one_group)] == [placed.id]
        await agent.says(node_rules=NodeRules(hosts=True, groups=True))
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, waits.id, ADMIN)).job.cluster == "east", "its manager was configured anew"


async def test_an_agent_that_does_not_say_is_offered_jobs_of_several_groups(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=5, cores=4)
        agent = await an_agent(service, "east", HOSTS)
        [placed] = await submit(service, a_job(a_level(), a_level(nodes=2)))
        assert [ref.job for ref, _ in await offers(agent, HOSTS)] == [placed.id]


async def test_a_manager_that_merges_groups_gets_those_that_are_alike_with_the_hosts_of_each(tmp_path: Path) -> None:
    merges = NodeRules(hosts=True, one_group=ONE_GROUP, merges=True)
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        await hang(service, "east", "net", "n4", "hdr")
        agent = await an_agent(service, "east", merges)
        alike = a_job(a_level(requires=needs()), a_level(requires=needs("hdr", "net")))
        shapes = a_job(a_level(), replace(a_level(), exclusive=True))
        [placed, waits] = await submit(service, alike, shapes)
        assert (placed.cluster, waits.cluster) == ("east", "")
        assert f"{ONE_GROUP}, and its groups have slots of different shapes" in waits.reason
        [(ref, hosts)] = await offers(agent, merges)
        assert ref.job == placed.id
        named = {entry.group: entry.hosts for entry in hosts}
        assert (len(named[0]), named[1]) == (1, ("n4",))
        assert set(named[0]) < {"n2", "n3"}
