"""Side doors: what a caller could learn or do by ways that no table of rights names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from grpc import aio

from rainbow_sched.model.errors import Invalid, Unauthenticated
from rainbow_sched.model.job import Terms
from rainbow_sched.pb.prototype import rainbow_pb2, rainbow_pb2_grpc
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2, jobs_pb2
from rainbow_sched.server.admission.calls import Call, Method
from rainbow_sched.server.admission.credentials import Authenticator
from rainbow_sched.server.admission.limits import AdmissionLimits, RateLimiter
from rainbow_sched.server.admission.policy import V2
from rainbow_sched.service.access.audit import SYSTEM
from tests.support.calls import bearer
from tests.unit.access.calls import ask, code_of
from tests.unit.access.test_tokens import fields_of
from tests.unit.access.world import World, a_submit, a_world, register, submit


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A populated server."""
    async with a_world(tmp_path / "world") as made:
        yield made


async def waiting_for(world: World, who: str, id: int) -> str:
    """What a job is answered that waits for job `id`."""
    request = a_submit("alpha")
    request.terms.dependencies.append(f"afterany:{id}")
    try:
        await ask(world.channel, "Jobs/Submit", world.credentials[who], **fields_of(request))
    except aio.AioRpcError as error:
        return f"{error.code().name} {error.details()}".replace(str(id), "ID")
    return "OK"


async def test_a_job_cannot_wait_for_one_that_its_owner_may_not_see(world: World) -> None:
    assert await waiting_for(world, "ana", world.jobs["own"]) == "OK"
    hidden = await waiting_for(world, "ana", world.jobs["other"])
    assert hidden.startswith("NOT_FOUND")
    assert hidden == await waiting_for(world, "ana", world.jobs["missing"])


async def test_an_agent_cannot_report_on_another_clusters_attempt_even_with_its_fence(world: World) -> None:
    core = world.running.service.core
    attempt = await core.store.read(lambda tx: tx.attempt(world.jobs["own"], 1))
    assert attempt is not None
    ref = agents_pb2.AttemptRef(job=attempt.job, n=1, token=attempt.token)
    beta = world.credentials["agent-beta"]
    messages: list[dict[str, object]] = [
        {"accepts": [ref]},
        {"rejects": [agents_pb2.Reject(attempt=ref, reason="x")]},
        {"reports": [agents_pb2.Report(attempt=ref, state="succeeded", exit_code=0)]},
        {"output": [agents_pb2.Output(attempt=ref, stream="stdout", offset=0, data=b"lies")]},
    ]
    for seq, message in enumerate(messages, start=1):
        await code_of(ask(world.channel, "Agents/Sync", beta, cluster="beta", epoch="b", seq=seq, **message))
    after = await core.store.read(lambda tx: tx.attempt(attempt.job, 1))
    assert after is not None
    assert after.state == attempt.state
    assert await core.store.read(lambda tx: tx.output_size(attempt.job, 1, "stdout")) == 0


async def test_nothing_in_a_submission_names_another_owner_or_opens_another_cluster(world: World) -> None:
    for filter_ in ({"owner": "bob"}, {"cluster": "beta"}, {"ids": [world.jobs["other"]]}):
        answer = await ask(world.channel, "Jobs/List", world.credentials["ana"], filter=jobs_pb2.JobFilter(**filter_))
        assert [job.id for job in answer.jobs] == []
    answer = await ask(world.channel, "Jobs/Cancel", world.credentials["ana"], filter=jobs_pb2.JobFilter(owner="bob"))
    assert list(answer.jobs) == []


async def test_two_users_can_use_the_same_client_token_for_different_jobs(world: World) -> None:
    ids = []
    for who, cluster in (("ana", "alpha"), ("bob", "beta")):
        request = a_submit(cluster)
        request.client_token = "same"
        ids.append((await ask(world.channel, "Jobs/Submit", world.credentials[who], **fields_of(request))).id)
    assert ids[0] != ids[1]


async def test_a_call_carries_one_bearer_and_a_good_one_beside_a_bad_one_is_refused(world: World) -> None:
    stub = world.channel.unary_unary(
        "/rainbow.v2.Clusters/List",
        request_serializer=clusters_pb2.ListClustersRequest.SerializeToString,
        response_deserializer=clusters_pb2.ListClustersResponse.FromString,
    )
    good, bad = bearer(world.credentials["ana"]), bearer("guess")
    admin = bearer(world.credentials["admin"])
    for metadata in ([*good, *bad], [*bad, *good], [*good, *admin]):
        assert await code_of(stub(clusters_pb2.ListClustersRequest(), metadata=metadata)) == "UNAUTHENTICATED"
    wrong = [*good, ("rainbow-cluster-token", f"beta={world.credentials['submit-alpha']}")]
    assert await code_of(stub(clusters_pb2.ListClustersRequest(), metadata=wrong)) == "PERMISSION_DENIED"


@pytest.mark.parametrize("first", ["", "Bearer ", "Bearer guess"])
async def test_a_known_bearer_behind_another_header_is_not_let_in_without_a_look(world: World, first: str) -> None:
    core = world.running.service.core
    authenticator = Authenticator(
        core.credential_resolver, core.clock, RateLimiter(AdmissionLimits()), anonymous_satisfy=False
    )
    good = bearer(world.credentials["ana"])
    for metadata, who in (good, "ana"), ([("authorization", first), *good], None):
        await core.credential_resolver.resolve(world.credentials["ana"], core.clock.now())
        context = SimpleNamespace(invocation_metadata=partial(list, metadata), peer=lambda: "ipv4:127.0.0.1:1")
        call = Call.of(Method.of(f"{V2}Jobs/List"), context)  # type: ignore[arg-type]  # what is asked of a context
        waiting = authenticator.authenticate(call)
        assert (None if waiting else call.principal.name) == who
        if waiting:
            with pytest.raises(Unauthenticated):
                await waiting


async def test_the_servers_own_name_is_never_a_callers(world: World) -> None:
    stub = world.channel.stream_unary(
        "/rainbow.v2.Clusters/Register",
        request_serializer=clusters_pb2.GraphUpload.SerializeToString,
        response_deserializer=clusters_pb2.RegisterResponse.FromString,
    )
    with pytest.raises(aio.AioRpcError):
        await stub(iter(()))
    lines = await world.running.service.core.store.read(lambda tx: tx.audit(0, 1000, actor=SYSTEM.name))
    assert [line.verb for line in lines] == ["user.add"]  # the first administrator's account


async def test_a_credential_as_long_as_a_book_is_refused_before_it_is_hashed(world: World) -> None:
    request = rainbow_pb2.DeleteRequest(name="alpha", secret="x" * 3_000_000)
    stub = rainbow_pb2_grpc.RainbowSchedulerStub(world.channel)
    with pytest.raises(aio.AioRpcError, match="too long"):
        await stub.Delete(request, timeout=20)


async def test_a_deleted_clusters_agent_gets_nothing_when_the_name_is_back(world: World) -> None:
    old = world.credentials["agent-gone"]
    await register(world, "gone")
    assert await code_of(ask(world.channel, "Agents/Receive", old, cluster="gone")) == "UNAUTHENTICATED"
    assert await submit(world, "carol", "gone") > 0


def test_labels_and_options_cannot_fill_the_database() -> None:
    for changes in (
        {"labels": {"k": "x" * 100_000}},
        {"labels": {"k" * 100_000: "x"}},
        {"policy_options": {"k": "x" * 100_000}},
        {"only_clusters": ("x" * 100_000,)},
        {"not_clusters": tuple(f"c{n}" for n in range(100_000))},
    ):
        with pytest.raises(Invalid):
            Terms(**changes)  # type: ignore[arg-type]
