"""What was matched is where a job runs: offers name the hosts, reports name the nodes, and nobody is told less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.decision import Decision
from rainbow_sched.model.job import Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.match import Fit
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task
from rainbow_sched.protocol.messages import AttemptRef, Report
from rainbow_sched.selection.decisions import replay
from rainbow_sched.service.agents import offers as receiving
from rainbow_sched.service.agents import sync
from rainbow_sched.service.agents.host_binding import NO_BINDING_SUPPORT, NOT_ENFORCED, PARTS_NEED_DIFFERENT_HOSTS
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.clusters import registration, reported_state
from rainbow_sched.service.scheduling.plan import PlacementQuery
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.views import explanation, jobs
from tests.support.agents import Agent, stored_attempt, sync_request
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_graph, a_service, submit, with_cluster

HOSTS = NodeRules(hosts=True)


def needs(model: str = "nvme", subsystem: str = "io") -> tuple[Requirement, ...]:
    return (Requirement(subsystem, (Equals("model", model),)),)


def a_level(*, nodes: int = 1, requires: tuple[Requirement, ...] = (), gpu: tuple[Requirement, ...] = ()) -> Level:
    inside = [Level(type="core", count=Count(4))]
    if gpu:
        inside.append(Level(type="gpu", count=Count(1), requires=gpu))
    return Level(type="node", count=Count(nodes), requires=requires, inside=tuple(inside))


def a_job(*levels: Level, terms: Terms | None = None, **rest: Any) -> Submission:
    groups = tuple(Group(levels=(level,)) for level in levels or (a_level(requires=needs()),))
    request = Request(groups=groups, tasks=(Task(command=("true",)),), **rest)
    return Submission(owner="ana", request=prepare(request), name="job", terms=terms or Terms())


async def with_io(service: Service, name: str, on: str = "n[2-3]", *, nodes: int = 5, gpus: int = 0) -> None:
    """A cluster of nodes of 4 cores, some of which carry nvme."""
    await with_cluster(service, name, nodes=nodes, cores=4, gpus=gpus)
    await hang(service, name, "io", on, "nvme")


async def hang(service: Service, name: str, subsystem: str, on: str | Sequence[str], model: str) -> None:
    vertex = {"type": "storage", "name": subsystem, "on": on, "metadata": {"model": model}}
    text = json.dumps({"rainbow": "subsystem/1", "name": subsystem, "with": [vertex]}).encode()
    await registration.put_subsystem(service.core, name, subsystem, text)


async def an_agent(service: Service, cluster: str, rules: NodeRules | None = HOSTS) -> Agent:
    agent = Agent(service, cluster)
    await agent.says(node_rules=rules)
    return agent


async def offers(agent: Agent, rules: NodeRules | None = HOSTS) -> list[tuple[AttemptRef, tuple[GroupHosts, ...]]]:
    out = await agent.says(want=10, node_rules=rules)
    return [(offer.ref, offer.allowed.groups) for offer in out.offers]


async def start(agent: Agent, ref: AttemptRef, nodes: str = "") -> None:
    assert (await agent.says(accepts=(ref,), node_rules=HOSTS)).confirms == (ref,)
    await agent.says(reports=(Report(ref=ref, state=AttemptState.RUNNING, nodes=nodes),), node_rules=HOSTS)


async def explained(service: Service, id: int) -> dict[str, Any]:
    story = await explanation.explain(service.core, id, ADMIN)
    found: dict[str, Any] = json.loads(story.explanations)
    return found


async def test_an_offer_names_the_hosts_that_meet_what_the_manager_cannot_be_told(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        await submit(service, a_job(), a_job(a_level()), a_job(a_level(), not_hosts=("n0",)))
        assert [hosts for _, hosts in await offers(agent)] == [
            (GroupHosts(0, ("n2", "n3")),),
            (),
            (GroupHosts(0, ("n1", "n2", "n3", "n4")),),
        ]


async def test_a_name_that_the_manager_is_told_binds_the_hosts_that_have_it_in_the_graph(tmp_path: Path) -> None:
    """The graph may have been registered by hand, with other contents than the manager has under that name."""
    tells = NodeRules(hosts=True, subsystems=frozenset({"io"}))
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east", tells)
        await submit(service, a_job())
        assert [hosts for _, hosts in await offers(agent, tells)] == [(GroupHosts(0, ("n2", "n3")),)]


async def test_what_is_required_beside_a_name_binds_hosts_though_the_manager_is_told_the_name(tmp_path: Path) -> None:
    rules = NodeRules(hosts=True, subsystems=frozenset({"gpus"}))
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=5, cores=4)
        kinds = [
            {"type": "gpu", "name": f"a100-{memory}", "on": on, "metadata": {"model": "a100", "memory": memory}}
            for on, memory in (("n[0-1]", 40), ("n[2-3]", 80))
        ]
        text = json.dumps({"rainbow": "subsystem/1", "name": "gpus", "with": kinds}).encode()
        await registration.put_subsystem(service.core, "east", "gpus", text)
        agent = await an_agent(service, "east", rules)
        large = Requirement("gpus", (Equals("model", "a100"), Equals("memory", 80)))
        await submit(service, a_job(a_level(requires=(large,))))
        assert [hosts for _, hosts in await offers(agent, rules)] == [(GroupHosts(0, ("n2", "n3")),)]


def parts(*levels: Level) -> Submission:
    """One group: an offer names the hosts of all its levels together."""
    request = Request(groups=(Group(levels=levels),), tasks=(Task(command=("true",)),))
    return Submission(owner="ana", request=prepare(request), name="job", terms=Terms())


async def test_parts_of_a_group_run_only_on_hosts_that_are_right_for_all_of_them(tmp_path: Path) -> None:
    cores = Level(type="core", count=Count(2), requires=needs())
    async with a_service(tmp_path) as service:
        await with_io(service, "east", gpus=1)
        await hang(service, "east", "net", "n[3-4]", "hdr")
        agent = await an_agent(service, "east")
        anywhere = parts(cores, Level(type="gpu"))
        both = parts(cores, Level(type="gpu", requires=needs("hdr", "net")))
        await submit(service, anywhere, both)
        assert [hosts for _, hosts in await offers(agent)] == [
            (GroupHosts(0, ("n2", "n3")),),
            (GroupHosts(0, ("n3",)),),
        ]
        ask = PlacementQuery(request=both.request, terms=Terms())
        [shown] = json.loads(explanation.explanations(service.core, ask))["clusters"]
        assert shown["hosts"] == [{"group": 0, "hosts": "n3"}]


async def test_parts_of_a_group_that_need_different_hosts_are_refused_before_they_are_offered(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        await hang(service, "east", "net", "n4", "hdr")
        agent = await an_agent(service, "east")
        apart = parts(a_level(requires=needs()), a_level(requires=needs("hdr", "net")))
        [job] = await submit(service, apart)
        assert (job.state, job.reason) == (JobState.HELD, f"east: {PARTS_NEED_DIFFERENT_HOSTS}")
        assert await offers(agent) == []
        ask = PlacementQuery(request=apart.request, terms=Terms())
        decision, explanations = await explanation.plan(service.core, ask, reasons=True)
        assert decision.fleet.document["misfits"] == {"east": [Fit.NEVER.value, PARTS_NEED_DIFFERENT_HOSTS]}
        assert json.loads(explanations)["closed"] == {"east": PARTS_NEED_DIFFERENT_HOSTS}
        alone = a_job(a_level(requires=needs()), a_level(requires=needs("hdr", "net")))
        await submit(service, alone)
        [(_, hosts)] = await offers(agent, NodeRules(hosts=True, groups=True))
        assert hosts == (GroupHosts(0, ("n2", "n3")), GroupHosts(1, ("n4",)))


async def test_an_agent_that_tells_its_manager_less_than_before_gets_more_hosts(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east", NodeRules(hosts=True, subsystems=frozenset({"io"})))
        await submit(service, a_job())
        assert [hosts for _, hosts in await offers(agent, HOSTS)] == [(GroupHosts(0, ("n2", "n3")),)]


async def test_a_cluster_whose_agent_keeps_no_job_on_nodes_gets_no_bound_job(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east", None)
        [bound, free] = await submit(service, a_job(), a_job(a_level()))
        assert (free.cluster, bound.cluster) == ("east", "")
        assert NO_BINDING_SUPPORT in bound.reason
        ask = PlacementQuery(a_job().request, Terms())
        assert json.loads(explanation.explanations(service.core, ask))["closed"] == {"east": NO_BINDING_SUPPORT}
        record = await service.core.store.read(lambda tx: tx.decision(bound.id))
        assert record is not None
        decision = record.decision()
        assert decision.fleet.document["misfits"] == {"east": [Fit.UNKNOWN.value, NO_BINDING_SUPPORT]}
        assert replay(decision.to_json()).record == Decision.from_json(decision.to_json()).record
        await agent.says(node_rules=HOSTS)
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, bound.id, ADMIN)).job.cluster == "east", "the agent was upgraded"


async def test_what_binds_nothing_goes_to_an_agent_that_keeps_no_job_on_nodes(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east", on="n[0-4]")
        agent = await an_agent(service, "east", None)
        await submit(service, a_job())
        assert [hosts for _, hosts in await offers(agent, None)] == [()]


async def test_a_bound_job_that_was_given_before_the_agent_came_is_returned_by_one_that_cannot_keep_it(
    tmp_path: Path,
) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        [job] = await submit(service, a_job())
        assert job.cluster == "east"
        agent = await an_agent(service, "east", None)
        assert await offers(agent, None) == []
        [attempt] = await service.core.store.read(lambda tx: tx.attempts(job.id))
        assert (attempt.state, attempt.reason) == (AttemptState.RETURNED, NO_BINDING_SUPPORT)
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, job.id, ADMIN)).job.state is JobState.HELD


async def test_receivers_get_bound_jobs_as_ever_and_plan_and_explain_say_that_nodes_are_not_enforced(
    tmp_path: Path,
) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        [job] = await submit(service, a_job())
        [entry] = (await explained(service, job.id))["clusters"]
        assert (entry["fit"], entry["nodes"]) == ("now", NOT_ENFORCED)
        [(attempt, _)] = await receiving.receive(service.core, "east", 5)
        assert attempt.job == job.id


async def test_node_rules_are_known_after_a_restart(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        await with_io(service, "west")
        await an_agent(service, "east", None)
        await an_agent(service, "west", HOSTS)
    async with a_service(tmp_path) as service:
        [job] = await submit(service, a_job())
        assert job.cluster == "west"
        assert service.core.fleet.without_binding == {"east"}


async def test_a_mixed_host_is_refused_beforehand_with_a_reason_that_names_it(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=2, cores=4, gpus=2)
        await hang(service, "east", "model", ["6"], "a100")  # the first of two gpus of n0
        gpu = a_level(gpu=needs("a100", "model"))
        await an_agent(service, "east")
        [job] = await submit(service, a_job(gpu, terms=Terms(fail_fast=True)))
        assert job.state is JobState.INFEASIBLE
        assert "n0" in job.reason
        assert "model" in job.reason
        assert "cannot be told which gpu" in job.reason
        [entry] = (await explained(service, job.id))["clusters"]
        assert entry["reasons"][0]["reason"] == "mixed-hosts"
        [again] = await submit(service, a_job(a_level()))
        assert again.cluster == "east"


async def test_a_binding_that_became_impossible_returns_the_attempt_and_the_job_goes_elsewhere(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        [job] = await submit(service, a_job())
        await hang(service, "east", "io", "n2", "hdd")
        await with_io(service, "west")
        assert await offers(agent) == []
        [attempt] = await service.core.store.read(lambda tx: tx.attempts(job.id))
        assert attempt.state is AttemptState.RETURNED
        assert "no host has all" in attempt.reason
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, job.id, ADMIN)).job.cluster == "west"


async def test_a_graph_that_lacks_what_is_asked_returns_the_attempt(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east", gpus=1)
        agent = await an_agent(service, "east")
        [job] = await submit(service, a_job(a_level(gpu=needs("nvme", "io"))))
        await registration.replace_graph(service.core, "east", a_graph(nodes=5, cores=4))
        assert await offers(agent) == []
        [attempt] = await service.core.store.read(lambda tx: tx.attempts(job.id))
        assert (attempt.state, attempt.reason[:9]) == (AttemptState.RETURNED, "the hosts")


async def test_an_offer_that_is_made_again_has_the_hosts_of_the_graph_as_it_is_then(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        await submit(service, a_job())
        [(first, _)] = await offers(agent)
        await hang(service, "east", "io", "n4", "nvme")
        clock.advance(10.0)
        assert await offers(agent) == [(first, (GroupHosts(0, ("n4",)),))]
        await hang(service, "east", "io", "n4", "hdd")
        clock.advance(10.0)
        assert await offers(agent) == []
        [attempt] = await service.core.store.read(lambda tx: tx.attempts(first.job))
        assert attempt.state is AttemptState.RETURNED


async def test_a_job_that_came_while_the_hosts_of_others_were_worked_out_is_offered_with_all_its_time(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        core = service.core
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        await submit(service, a_job())
        until = clock.now() + core.settings.lease
        told, more = await core.write(
            lambda tx, fx: receiving.lease_offers(
                core, tx, fx, "east", 1, agent.epoch, until, receiving.ALL_OFFERS, receiving.Bindings()
            )
        )
        assert (told, more) == ([], True)
        clock.advance(0.1)
        [offer] = (await agent.says(want=1, node_rules=HOSTS)).offers
        assert (await stored_attempt(service, offer.ref)).lease_until == clock.now() + core.settings.lease


async def test_an_offer_that_had_to_wait_for_its_hosts_is_leased_as_long_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        await submit(service, a_job())

        async def with_a_job_that_came_after(*given: Any) -> receiving.Bindings:
            found = await receiving.bound_offers(*given)
            await submit(service, a_job())
            clock.advance(0.3)
            return found

        monkeypatch.setattr(sync, "bound_offers", with_a_job_that_came_after)
        assert len((await agent.says(want=10, node_rules=HOSTS)).offers) == 1
        monkeypatch.undo()
        clock.advance(0.1)
        [offer] = (await agent.says(want=10, node_rules=HOSTS)).offers
        assert (await stored_attempt(service, offer.ref)).lease_until == clock.now() + service.core.settings.lease


@pytest.mark.parametrize("groups", [True, False])
async def test_groups_with_different_requirements(tmp_path: Path, groups: bool) -> None:
    rules = NodeRules(hosts=True, groups=groups)
    async with a_service(tmp_path) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east", rules)
        await submit(service, a_job(a_level(), a_level(requires=needs())))
        [(_, hosts)] = await offers(agent, rules)
        if groups:
            assert hosts == (GroupHosts(1, ("n2", "n3")),)
        else:
            assert [len(entry.hosts) for entry in hosts] == [1, 1]
            assert hosts[1].hosts[0] in ("n2", "n3")
            assert hosts[0].hosts != hosts[1].hosts


async def test_groups_find_their_hosts_even_if_the_first_would_take_what_another_needs(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=2, cores=4)
        await hang(service, "east", "io", "n[0-1]", "nvme")
        await hang(service, "east", "net", "n0", "fast")
        agent = await an_agent(service, "east")
        await submit(service, a_job(a_level(requires=needs()), a_level(requires=needs("fast", "net"))))
        [(_, hosts)] = await offers(agent)
        assert hosts == (GroupHosts(0, ("n1",)), GroupHosts(1, ("n0",)))


async def test_bid_requests_carry_the_hosts(tmp_path: Path) -> None:
    async with a_service(tmp_path, settings=Settings(policy="start", bid_deadline=1.0)) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        agent.seq += 1
        request = sync_request("east", agent.epoch, agent.seq, wait=20.0, node_rules=HOSTS)
        listening = asyncio.create_task(service.agents.sync(request, "server"))
        await submit(service, a_job())
        settling = asyncio.create_task(service.scheduling_loop.decide_pending())
        [question] = (await asyncio.wait_for(listening, 10)).bid_requests
        assert question.allowed.groups == (GroupHosts(0, ("n2", "n3")),)
        await settling


async def test_the_server_counts_a_job_where_its_manager_runs_it(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east", on="n[0-4]")
        agent = await an_agent(service, "east")
        [job] = await submit(service, a_job(a_level(nodes=2)))
        [(ref, _)] = await offers(agent)
        only = a_job(a_level(), hosts=("n0",)).request
        assert service.core.fleet.graphs.match(only).fit("east") is Fit.LATER, "it was counted on the first nodes"
        await start(agent, ref, "n[3-4]")
        assert service.core.fleet.graphs.match(only).fit("east") is Fit.NOW
        taken = a_job(a_level(), hosts=("n3", "n4")).request
        assert service.core.fleet.graphs.match(taken).fit("east") is Fit.LATER
        view = await jobs.get(service.core, job.id, ADMIN)
        assert view.attempt is not None
        assert view.attempt.nodes == "n[3-4]"
    async with a_service(tmp_path) as service:
        assert service.core.fleet.graphs.match(only).fit("east") is Fit.NOW, "after a restart, too"
        assert service.core.fleet.graphs.match(taken).fit("east") is Fit.LATER
        await registration.replace_graph(service.core, "east", a_graph(nodes=5, cores=4))
        assert service.core.fleet.graphs.match(taken).fit("east") is Fit.LATER, "with another graph, too"
        agent.service = service
        await agent.says(reports=(Report(ref=ref, state=AttemptState.SUCCEEDED, exit_code=0),), node_rules=HOSTS)
        assert service.core.fleet.graphs.match(taken).fit("east") is Fit.NOW


async def test_jobs_that_change_places_are_both_counted_where_they_run(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east", on="n[0-1]", nodes=3)
        agent = await an_agent(service, "east")
        await submit(service, a_job(), a_job())
        [(first, _), (second, _)] = await offers(agent)
        await start(agent, first, "n1")
        await start(agent, second, "n0")
        for host, expected in (("n0", Fit.LATER), ("n1", Fit.LATER), ("n2", Fit.NOW)):
            assert service.core.fleet.graphs.match(a_job(a_level(), hosts=(host,)).request).fit("east") is expected
        member = service.core.fleet.member("east")
        assert not member.displaced
        await agent.says(reports=(Report(ref=first, state=AttemptState.SUCCEEDED, exit_code=0),), node_rules=HOSTS)
        assert service.core.fleet.graphs.match(a_job(a_level(), hosts=("n1",)).request).fit("east") is Fit.NOW


@pytest.mark.parametrize("nodes", ["", "elsewhere", "n[", "n[0-99999999]", "x" * 300_000])
async def test_nodes_that_the_graph_does_not_know_leave_a_job_where_it_was_counted(tmp_path: Path, nodes: str) -> None:
    async with a_service(tmp_path) as service:
        await with_io(service, "east", on="n[0-4]")
        agent = await an_agent(service, "east")
        await submit(service, a_job())
        [(ref, _)] = await offers(agent)
        await start(agent, ref, nodes)
        assert service.core.fleet.graphs.match(a_job(a_level(), hosts=("n0",)).request).fit("east") is Fit.LATER


async def test_a_job_on_wrong_nodes_is_returned_counted_and_not_sent_there_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        [job] = await submit(service, a_job())
        [(ref, _)] = await offers(agent)
        assert (await agent.says(accepts=(ref,), node_rules=HOSTS)).confirms == (ref,)
        said = "the manager gave n0; allowed are n[2-3]"
        wrong = Report(ref=ref, state=AttemptState.RETURNED, reason=said, nodes="n0", code="wrong-nodes")
        for _ in range(2):
            assert (await agent.says(reports=(wrong,), node_rules=HOSTS)).acked == (ref,)
        view = await jobs.get(service.core, job.id, ADMIN)
        assert view.attempt is not None
        assert (view.job.state, view.job.failures) == (JobState.QUEUED, 0)
        assert (view.attempt.state, view.attempt.code, view.attempt.nodes) == (
            AttemptState.RETURNED,
            "wrong-nodes",
            "n0",
        )
        assert (await reported_state.view(service.core, "east")).cluster.wrong_nodes == 1, "said twice, counted once"
        await service.scheduling_loop.decide_pending()
        held = await jobs.get(service.core, job.id, ADMIN)
        assert held.job.state is JobState.HELD
        assert said in held.job.reason
        assert said in (await explained(service, job.id))["closed"]["east"]
        story = await explanation.explain(service.core, job.id, ADMIN)
        assert any(event.detail.get("code") == "wrong-nodes" for event in story.events)
        clock.advance(61.0)
        await service.timers.tick()
        await service.scheduling_loop.decide_pending()
        [(again, hosts)] = await offers(agent)
        assert (again.job, hosts) == (job.id, (GroupHosts(0, ("n2", "n3")),))
        [entry] = (await explained(service, job.id))["clusters"]
        assert (entry["wrong_nodes"], entry["hosts"]) == (1, [{"group": 0, "hosts": "n[2-3]"}])


async def test_what_is_returned_because_of_its_nodes_trips_the_breaker(tmp_path: Path) -> None:
    async with a_service(tmp_path, settings=Settings(policy="first", breaker=2)) as service:
        await with_io(service, "east")
        agent = await an_agent(service, "east")
        await submit(service, a_job(), a_job())
        for ref, _ in await offers(agent):
            await agent.says(accepts=(ref,), node_rules=HOSTS)
            wrong = Report(ref=ref, state=AttemptState.RETURNED, reason="wrong", code="wrong-nodes")
            await agent.says(reports=(wrong,), node_rules=HOSTS)
        assert service.core.fleet.member("east").cluster.standing.value == "degraded"
