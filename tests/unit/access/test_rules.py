"""Clusters limit who may use them and what they may ask: through the whole server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.request import Count, Group, Level
from rainbow_sched.pb.v2 import clusters_pb2, jobs_pb2
from tests.support.service import a_request
from tests.unit.access.calls import ask, code_of
from tests.unit.access.world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path / "world") as made:
        yield made


async def rule(world: World, cluster: str, *, by: str = "admin", **fields: Any) -> dict[str, Any]:
    """Set rules; as they are then."""
    for key in ("users", "groups"):
        if key in fields:
            fields[key] = clusters_pb2.RuleNames(names=fields[key])
    answer = await ask(world.channel, "Clusters/SetRules", world.credentials[by], cluster=cluster, **fields)
    found: dict[str, Any] = json.loads(answer.rules)
    return found


async def submitted(world: World, who: str, *only: str, nodes: int = 1, **terms: Any) -> Any:
    """A job of `who`, as it was taken."""
    spec = jobs_pb2.Spec(canonical=to_json(a_request(nodes=nodes)))
    asked = jobs_pb2.Terms(only_clusters=only, **terms)
    return await ask(world.channel, "Jobs/Submit", world.credentials[who], spec=spec, terms=asked)


async def planned(world: World, who: str, *, nodes: int = 1) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What a plan of `who` tells: the decision, the explanations, and all of it as text."""
    spec = jobs_pb2.Spec(canonical=to_json(a_request(nodes=nodes)))
    answer = await ask(world.channel, "Jobs/Plan", world.credentials[who], spec=spec, reasons=True)
    return json.loads(answer.decision), json.loads(answer.explanations), answer.decision + answer.explanations


async def test_a_job_that_asks_too_much_is_told_so_and_goes_elsewhere(world: World) -> None:
    await rule(world, "alpha", max_nodes=1)
    said = "allows at most 1 nodes per job; this job asks for 2"
    assert (await submitted(world, "carol", nodes=2)).cluster == "beta"
    waits = await submitted(world, "carol", "alpha", nodes=2)
    assert (waits.state, waits.reason) == ("held", f"alpha: {said}")
    refused = await submitted(world, "carol", "alpha", nodes=2, fail_fast=True)
    assert (refused.state, refused.reason) == ("infeasible", f"alpha: {said}")
    _, explanations, _ = await planned(world, "carol", nodes=2)
    assert explanations["closed"] == {"alpha": said}
    story = await ask(world.channel, "Jobs/Explain", world.credentials["carol"], id=waits.id)
    assert said in story.decision
    assert json.loads(story.explanations)["closed"] == {"alpha": said}
    assert (await submitted(world, "carol", "alpha")).cluster == "alpha"


async def test_nodes_are_limited_however_they_are_asked_for(world: World) -> None:
    await rule(world, "alpha", max_nodes=1)  # its nodes have four cores
    node = Level(type="node", inside=(Level(type="core"),))
    asked = {
        "two": replace(node, count=Count(2)),
        "one or more": replace(node, count=Count(1, None)),
        "one to nine": replace(node, count=Count(1, 9)),
        "five cores": Level(type="core", count=Count(5)),
        "five tasks": replace(node, count=Count(5), shared=True),
        "four tasks": replace(node, count=Count(4), shared=True),
    }
    taken = {}
    for what, level in asked.items():
        request = replace(a_request(), groups=(Group(levels=(level,)),))
        terms, spec = jobs_pb2.Terms(only_clusters=["alpha"]), jobs_pb2.Spec(canonical=to_json(request))
        job = await ask(world.channel, "Jobs/Submit", world.credentials["carol"], spec=spec, terms=terms)
        taken[what] = "allows at most 1 nodes" not in job.reason
    assert taken == {what: what == "four tasks" for what in asked}


async def test_who_may_not_use_a_cluster_does_not_see_it_anywhere(world: World) -> None:
    carol = world.credentials["carol"]
    waits = await submitted(world, "carol", "alpha", nodes=9)
    await rule(world, "alpha", users=["ana"], groups=["gpus"])
    listed = await ask(world.channel, "Clusters/List", carol)
    assert [one.name for one in listed.clusters] == ["beta"]
    assert await code_of(ask(world.channel, "Clusters/Get", carol, cluster="alpha")) == "NOT_FOUND"
    assert "alpha" not in (await planned(world, "carol"))[2]
    assert "alpha" not in (await planned(world, "carol", nodes=50))[2]
    hidden, missing = [await submitted(world, "carol", name) for name in ("alpha", "nowhere")]
    assert (hidden.state, hidden.cluster, hidden.reason) == (missing.state, missing.cluster, missing.reason)
    now = await ask(world.channel, "Jobs/Explain", carol, id=waits.id)
    assert "alpha" not in now.explanations
    assert (await submitted(world, "ana", "alpha")).cluster == "alpha"
    assert (await submitted(world, "admin", "alpha")).cluster == "alpha"


async def test_groups_count_as_they_are_now_for_new_jobs_and_for_those_that_wait(world: World) -> None:
    admin = world.credentials["admin"]
    await rule(world, "alpha", groups=["gpus"])
    job = await submitted(world, "carol", "alpha")
    assert job.state == "held"
    await ask(world.channel, "Access/PutUser", admin, name="carol", groups={"names": ["gpus"]})
    async with asyncio.timeout(10):
        while (await ask(world.channel, "Jobs/Get", admin, id=job.id)).state == "held":
            await asyncio.sleep(0.01)
    assert (await submitted(world, "carol", "alpha")).cluster == "alpha"
    await ask(world.channel, "Access/PutUser", admin, name="carol", groups={"names": []})
    assert (await submitted(world, "carol", "alpha")).state == "held"


async def test_one_user_has_so_many_jobs_there_however_fast_they_come_and_others_have_theirs(world: World) -> None:
    await rule(world, "alpha", max_queued=3)
    jobs = await asyncio.gather(*(submitted(world, "carol", "alpha") for _ in range(8)))
    assert [job.state for job in jobs].count("bound") == 3
    assert {job.reason for job in jobs if job.state == "held"} == {
        "alpha: allows at most 3 jobs per user at a time; its owner has 3"
    }
    assert (await submitted(world, "ana", "alpha")).cluster == "alpha"
    first = next(job for job in jobs if job.state == "bound")
    await ask(world.channel, "Jobs/Cancel", world.credentials["carol"], ids=[first.id])

    async def there() -> int:
        found = await ask(world.channel, "Jobs/List", world.credentials["carol"], limit=100)
        return sum(job.cluster == "alpha" and job.state == "bound" for job in found.jobs)

    async with asyncio.timeout(10):
        while await there() < 3:
            await asyncio.sleep(0.01)
    assert await there() == 3


async def test_jobs_that_waited_before_there_were_rules_are_sorted_by_owner_when_there_are(world: World) -> None:
    held = [await submitted(world, who, "alpha", nodes=9) for who in ("carol", "ana")]
    assert {job.state for job in held} == {"held"}
    pending = world.running.service.core.pending
    same = {pending._shapes[job.id] for job in (await submitted(world, "carol", nodes=9), held[0])}
    await rule(world, "alpha", max_queued=1)
    assert pending._shapes[held[0].id] != pending._shapes[held[1].id]
    await rule(world, "alpha", clear=True)
    assert pending._shapes[held[0].id] in same


async def test_rules_survive_a_restart_and_end_with_their_cluster(tmp_path: Path) -> None:
    from rainbow_sched.server.main import RunningServer
    from rainbow_sched.server.options import ServerOptions

    async with a_world(tmp_path / "world") as world:
        assert await rule(world, "alpha", users=["ana"], max_nodes=2) == {"users": ["ana"], "max_nodes": 2}
        assert await rule(world, "alpha", max_nodes=0, max_time=60.0) == {"users": ["ana"], "max_time": 60.0}
        await rule(world, "beta", max_queued=1)
        await submitted(world, "carol", "beta")
        await ask(world.channel, "Clusters/Delete", world.credentials["admin"], cluster="beta")
        assert set(world.running.service.core.fleet.rules) == {"alpha"}
        lines = await ask(world.channel, "Access/ReadAudit", world.credentials["admin"], verb="cluster.rules")
        assert [line.object for line in lines.lines] == ["alpha", "alpha", "beta"]
        await rule(world, "alpha", max_queued=1, users=[], max_time=0.0)
        assert (await submitted(world, "ana", "alpha")).state == "held", "one was there before"
    again = await RunningServer.start(
        ServerOptions(listen="127.0.0.1:0", data_dir=tmp_path / "world", registration_secret="x" * 20)
    )
    try:
        core = again.service.core
        assert core.fleet.rules["alpha"].max_queued == 1
        assert core.fleet.live_jobs_of("alpha", "ana") == 1
    finally:
        await again.stop()


async def test_a_cluster_sets_its_own_rules_and_tells_users_only_what_is_theirs_to_know(world: World) -> None:
    await rule(world, "alpha", by="agent-alpha", users=["ana", "carol"], max_nodes=2)
    seen = {
        who: json.loads((await ask(world.channel, "Clusters/Get", world.credentials[who], cluster="alpha")).rules)
        for who in ("admin", "agent-alpha", "carol")
    }
    assert seen["admin"] == seen["agent-alpha"] == {"users": ["ana", "carol"], "max_nodes": 2}
    assert seen["carol"] == {"max_nodes": 2}
    unknown = {"cluster": "alpha", "groups": clusters_pb2.RuleNames(names=["nobodys"])}
    assert await code_of(ask(world.channel, "Clusters/SetRules", world.credentials["admin"], **unknown)) == "NOT_FOUND"
    wrong = {"cluster": "alpha", "max_nodes": -3}
    assert (
        await code_of(ask(world.channel, "Clusters/SetRules", world.credentials["admin"], **wrong))
        == "INVALID_ARGUMENT"
    )


async def test_the_token_of_a_registration_is_admitted_by_its_name(world: World) -> None:
    await rule(world, "alpha", users=["ana"])
    spec = jobs_pb2.Spec(canonical=to_json(a_request()))
    taken = await ask(world.channel, "Jobs/Submit", world.credentials["submit-alpha"], spec=spec)
    assert taken.cluster == ""
    await rule(world, "alpha", users=["ana", "submitter:alpha"])
    taken = await ask(world.channel, "Jobs/Submit", world.credentials["submit-alpha"], spec=spec)
    assert taken.cluster == "alpha"


async def test_a_cluster_for_signed_jobs_says_so(world: World) -> None:
    await rule(world, "alpha", signed=True)
    assert "runs only signed jobs" in (await submitted(world, "carol", "alpha")).reason
    assert (await submitted(world, "carol", "alpha", signature="a.b")).cluster == "alpha"  # its agent looks closer
