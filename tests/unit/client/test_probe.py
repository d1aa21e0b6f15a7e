"""Why nobody answers, found out with real sockets."""

import asyncio
import datetime
import ssl

import pytest

from rainbow_sched.client.async_client import AsyncClient
from rainbow_sched.client.connection import Patience
from rainbow_sched.client.probe import why_not
from rainbow_sched.client.settings import Address, Settings, Tls, addresses
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.server.tls import make_authority
from tests.support.fake_server import closed_port

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
async def authority(tmp_path):
    """The folder of an authority, whose certificate is for localhost, and the port of somebody who shows it."""
    folder = tmp_path / "tls"
    make_authority(folder, ("localhost",), NOW)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        yield folder, server.sockets[0].getsockname()[1]


async def test_a_port_on_which_nobody_listens_refuses():
    assert await why_not(Address("127.0.0.1", closed_port(), False), Tls()) == "Connection refused"


async def test_one_side_with_tls_and_the_other_without_is_told(server, authority):
    _, port = authority
    host, _, plain = server.address.rpartition(":")
    asked = await why_not(Address(host, int(plain), True), Tls())
    assert asked == "what listens there does not speak TLS"
    assert await why_not(Address("127.0.0.1", port, False), Tls()) == (
        "what listens there is no Rainbow server, or speaks TLS"
    )


async def test_a_certificate_that_is_not_accepted_says_why(authority, tmp_path):
    folder, port = authority
    unknown = await why_not(Address("localhost", port, True), Tls())
    assert unknown.startswith("its certificate is not accepted: self-signed certificate")
    ours = Tls(ca=str(folder / "ca.pem"))
    assert "127.0.0.1" in await why_not(Address("127.0.0.1", port, True), ours)
    assert await why_not(Address("localhost", port, True), ours) == "what listens there is no Rainbow server"
    (tmp_path / "note").write_text("no certificate")
    assert "note cannot be used as a certificate" in await why_not(
        Address("localhost", port, True), Tls(ca=str(tmp_path / "note"))
    )


async def test_whoever_finds_nobody_is_told_the_reason_with_what_to_do():
    settings = Settings(servers=addresses(f"127.0.0.1:{closed_port()}"))
    async with AsyncClient(settings=settings, patience=Patience(unreachable=0.0)) as client:
        with pytest.raises(Unavailable, match=r": Connection refused \(asked in plain text.*start one with"):
            await client.job(1)
