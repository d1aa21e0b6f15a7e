"""Retries and failover, credentials of calls, and the reasons given for an unreachable server."""

import asyncio
import datetime
import random
import ssl

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.client.access import WHO_AM_I
from rainbow_sched.client.async_client import AsyncClient
from rainbow_sched.client.connection import Backoff, CallCredential, Connection, Timeouts, diagnose
from rainbow_sched.client.settings import Address, ClientSettings, Overrides, Tls, addresses, resolve
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.model.errors import Conflict, Exhausted, Invalid, NotFound, Unavailable
from rainbow_sched.pb.v2 import access_pb2, agents_pb2, clusters_pb2, jobs_pb2
from rainbow_sched.server.tls import make_authority
from tests.support.fake_server import (
    QUICK,
    STREAMED_DOWN,
    STREAMED_UP,
    TABLE,
    FakeServer,
    Refusal,
    Script,
    closed_port,
    running,
)

NOW = datetime.datetime.now(datetime.UTC)
DOWN = Refusal(grpc.StatusCode.UNAVAILABLE, "going down")


@pytest.mark.parametrize("rpc", TABLE, ids=lambda rpc: rpc.path)
def test_the_table_of_calls_agrees_with_the_proto_files(rpc):
    services = {}
    for module in (jobs_pb2, clusters_pb2, agents_pb2, access_pb2):
        services |= {service.full_name: service for service in module.DESCRIPTOR.services_by_name.values()}
    service, method = rpc.path.strip("/").split("/")
    described = services[service].methods_by_name[method]
    assert described.input_type.full_name == rpc.request.DESCRIPTOR.full_name
    assert described.output_type.full_name == rpc.response.DESCRIPTOR.full_name
    assert described.client_streaming == (rpc.path in STREAMED_UP)
    assert described.server_streaming == (rpc.path in STREAMED_DOWN)


def test_the_table_knows_every_call_about_jobs_clusters_and_agents():
    described = {
        f"/{service.full_name}/{method.name}"
        for module in (jobs_pb2, clusters_pb2, agents_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert described == {rpc.path for rpc in TABLE if "Access" not in rpc.path}


async def test_a_submit_is_tried_again_with_the_same_client_token(server, settings):
    server.answers["Jobs/Submit"] = Script(DOWN, DOWN, jobs_pb2.SubmitResponse(id=7))
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        answer = await client.submit_one(JobSubmission(text="x"))
    assert answer.id == 7
    tokens = {asked.request.client_token for asked in server.calls("Jobs/Submit")}
    assert len(server.calls("Jobs/Submit")) == 3
    assert len(tokens) == 1
    assert tokens != {""}


async def test_a_call_that_must_not_happen_twice_is_not_sent_twice(server, settings):
    server.answers["Agents/Receive"] = DOWN
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(Unavailable):
            await client.receive("perl")
    assert len(server.calls("Agents/Receive")) == 1


async def test_a_refusal_is_not_tried_again(server, settings):
    server.answers["Jobs/Get"] = Refusal(grpc.StatusCode.NOT_FOUND, "there is no job 9", "NotFound")
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(NotFound, match="there is no job 9"):
            await client.job(9)
    assert len(server.calls("Jobs/Get")) == 1


@pytest.mark.parametrize("call", ["receive", "job"])
async def test_a_dead_server_is_passed_over_even_by_calls_that_must_not_happen_twice(server, call):
    server.answers["Agents/Receive"] = agents_pb2.ReceiveResponse()
    server.answers["Jobs/Get"] = jobs_pb2.Job(id=1)
    settings = ClientSettings(servers=addresses(f"127.0.0.1:{closed_port()},{server.address}"))
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        await (client.receive("perl") if call == "receive" else client.job(1))
    assert len(server.asked) == 1


async def test_calls_fail_over_to_the_next_server(server, settings):
    server.answers["Jobs/Get"] = jobs_pb2.Job(id=1, name="from the second")
    with running(FakeServer(answers={"Jobs/Get": jobs_pb2.Job(id=1, name="from the first")})) as first:
        both = ClientSettings(servers=addresses(f"{first.address},{server.address}"))
        async with AsyncClient(settings=both, timeouts=QUICK) as client:
            assert (await client.job(1)).name == "from the first"
            first.answers["Jobs/Get"] = DOWN
            assert (await client.job(1)).name == "from the second"
            assert (await client.job(1)).name == "from the second"
    assert len(first.asked) == 2


async def test_an_unreachable_server_is_reported_with_a_remedy():
    settings = ClientSettings(servers=addresses(f"127.0.0.1:{closed_port()}"))
    async with AsyncClient(settings=settings, timeouts=Timeouts(unreachable=0.0)) as client:
        with pytest.raises(
            Unavailable, match=r"no Rainbow server answers at 127.0.0.1:.* plain text.*start one with `rainbow server`"
        ):
            await client.job(1)


async def test_a_plain_text_server_is_diagnosed_when_called_with_tls(server):
    settings = ClientSettings(servers=addresses(f"https://{server.address}"))
    async with AsyncClient(settings=settings, timeouts=Timeouts(unreachable=0.0)) as client:
        with pytest.raises(Unavailable, match=r"tried with TLS.* http:// connects in plain text"):
            await client.job(1)


async def test_every_server_is_tried_before_the_first_pause_and_pauses_grow():
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 6:
            raise KeyboardInterrupt

    settings = ClientSettings(servers=addresses(f"127.0.0.1:{closed_port()},127.0.0.1:{closed_port()}"))
    connection = Connection(settings, rng=random.Random(1), sleep=sleep, timeouts=Timeouts(unreachable=1e9, call=1e9))
    with pytest.raises(KeyboardInterrupt):
        await connection.call(WHO_AM_I, access_pb2.WhoAmIRequest())
    await connection.close()
    assert pauses[0] == 0
    assert all(0.05 * 2**i <= pause <= 0.1 * 2**i for i, pause in enumerate(pauses[1:]))


@given(attempt=st.integers(0, 10_000), seed=st.integers())
def test_a_pause_is_never_longer_than_the_cap_nor_shorter_than_half_of_it(attempt, seed):
    backoff = Backoff(first=0.1, cap=5.0)
    longest = min(5.0, 0.1 * 2 ** min(attempt, 40))
    assert longest / 2 <= backoff.delay(attempt, random.Random(seed)) <= longest


async def test_the_servers_class_name_decides_which_error_it_is(server, settings):
    server.answers["Jobs/Get"] = Script(
        Refusal(grpc.StatusCode.FAILED_PRECONDITION, "moved on", "Conflict"),
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", "Exhausted", (("retry-after", "9.5"),)),
        Refusal(grpc.StatusCode.INVALID_ARGUMENT, "malformed", "NoSuchClassHere"),
    )
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(Conflict, match="moved on"):
            await client.job(1)
        with pytest.raises(Exhausted) as slow:
            await client.job(1)
        assert slow.value.retry_after == 9.5
        with pytest.raises(Invalid, match="malformed"):
            await client.job(1)


async def test_a_call_that_takes_too_long_is_given_up(server, settings):
    import threading

    gate = threading.Event()
    server.answers["Jobs/Get"] = lambda request: gate.wait(5)
    async with AsyncClient(settings=settings, timeouts=Timeouts(call=0.05)) as client:
        with pytest.raises(Unavailable, match="did not answer in time"):
            await client.job(1)
    gate.set()


def test_each_purpose_sends_its_own_credential_and_no_other():
    settings = ClientSettings(
        token="user-token",
        cluster="perl",
        cluster_secret="perl-secret",
        registration_secret="door",
        cluster_tokens={"perl": "p", "eks": "e"},
        origins={"cluster_secret": "config"},
    )
    connection = Connection(settings)
    assert connection.metadata(CallCredential.USER) == (("authorization", "Bearer user-token"),)
    assert connection.metadata(CallCredential.CLUSTER) == (("authorization", "Bearer perl-secret"),)
    assert connection.metadata(CallCredential.REGISTRATION) == (("authorization", "Bearer door"),)
    assert connection.metadata(CallCredential.SUBMIT) == (
        ("authorization", "Bearer user-token"),
        ("rainbow-cluster-token", "perl=p"),
        ("rainbow-cluster-token", "eks=e"),
    )
    assert connection.metadata(CallCredential.SUBMIT, only=["eks"])[1:] == (("rainbow-cluster-token", "eks=e"),)


def test_the_configs_secret_goes_to_its_own_cluster_only():
    settings = ClientSettings(
        token="operator", cluster="perl", cluster_secret="perl-secret", origins={"cluster_secret": "config"}
    )
    assert settings.secret_for("perl") == "perl-secret"
    assert settings.secret_for("eks") == "operator"


def test_a_credential_with_a_line_end_is_refused_before_it_is_sent():
    with pytest.raises(Invalid, match="line end"):
        Connection(ClientSettings(token="abc\n")).metadata(CallCredential.USER)


@pytest.mark.parametrize("given", ["", "mine"])
async def test_a_client_that_was_faster_than_the_users_own_server_takes_its_token(server, tmp_path, monkeypatch, given):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = resolve(Overrides(server=server.address, token=given), {"HOME": str(tmp_path)})
    assert settings.token == given
    server.answers["Jobs/Get"] = jobs_pb2.Job(id=1)
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        (tmp_path / "rainbow").mkdir()
        (tmp_path / "rainbow" / "admin.token").write_text("rbu_own")
        (tmp_path / "rainbow" / "admin.token").chmod(0o600)
        await client.job(1)
    assert server.only("Jobs/Get").bearer == f"Bearer {given or 'rbu_own'}"


@pytest.fixture
async def authority(tmp_path):
    """The folder of an authority, whose certificate is for localhost, and the port of somebody who shows it."""
    folder = tmp_path / "tls"
    make_authority(folder, ("localhost",), NOW)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        yield folder, server.sockets[0].getsockname()[1]


async def test_a_closed_port_refuses_the_connection():
    assert await diagnose(Address("127.0.0.1", closed_port(), False), Tls()) == "Connection refused"


async def test_a_mismatch_of_tls_and_plain_text_is_diagnosed(server, authority):
    _, port = authority
    host, _, plain = server.address.rpartition(":")
    asked = await diagnose(Address(host, int(plain), True), Tls())
    assert asked == "the process that listens there does not use TLS"
    assert await diagnose(Address("127.0.0.1", port, False), Tls()) == (
        "the process that listens there is not a Rainbow server, or uses TLS"
    )


async def test_a_certificate_that_is_not_accepted_says_why(authority, tmp_path):
    folder, port = authority
    unknown = await diagnose(Address("localhost", port, True), Tls())
    assert unknown.startswith("its certificate is not accepted: self-signed certificate")
    ours = Tls(ca=str(folder / "ca.pem"))
    assert "127.0.0.1" in await diagnose(Address("127.0.0.1", port, True), ours)
    assert (
        await diagnose(Address("localhost", port, True), ours)
        == "the process that listens there is not a Rainbow server"
    )
    (tmp_path / "note").write_text("no certificate")
    assert "note cannot be used as a certificate" in await diagnose(
        Address("localhost", port, True), Tls(ca=str(tmp_path / "note"))
    )


async def test_an_unreachable_server_is_reported_with_the_reason():
    settings = ClientSettings(servers=addresses(f"127.0.0.1:{closed_port()}"))
    async with AsyncClient(settings=settings, timeouts=Timeouts(unreachable=0.0)) as client:
        with pytest.raises(Unavailable, match=r": Connection refused \(tried in plain text.*start one with"):
            await client.job(1)
