"""ConnectionLimiter: no address holds more than its share, and who has shown a credential is not cut for a stranger."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rainbow_sched.server.admission.connections import ConnectionLimiter, network_of, peer_of, raise_descriptor_limit
from rainbow_sched.server.admission.limits import AdmissionLimits
from tests.unit.access.calls import ask, code_of, follow
from tests.unit.access.world import a_world


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("unix", "unix"),
    ],
)
def test_one_caller_is_an_address_or_the_64_bits_that_are_theirs_to_fill(address: str, counted: str) -> None:
    assert network_of(address) == counted


class Door:
    """A listening socket and its connections, without a server behind it."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listening.getsockname()[1]
        self.inside: list[socket.socket] = []
        self.outside: list[socket.socket] = []

    def connect(self, count: int) -> list[socket.socket]:
        made = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        self.inside += [self.listening.accept()[0] for _ in range(count)]
        self.outside += made
        return made

    def alive(self) -> list[bool]:
        return [not cut(one) for one in self.outside]

    def close(self) -> None:
        for one in (*self.inside, *self.outside, self.listening):
            one.close()


def cut(one: socket.socket) -> bool:
    """True if the other side has hung up."""
    one.setblocking(False)
    try:
        while one.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.fixture
def door() -> Iterator[Door]:
    with contextlib.closing(Door()) as made:
        yield made


def name(one: socket.socket) -> str:
    return peer_of(*one.getsockname()[:2])


def test_unauthenticated_connections_above_the_limit_are_closed_oldest_first(door: Door) -> None:
    connections = ConnectionLimiter(door.port, unauthenticated=3, per_address=100)
    door.connect(3)
    assert connections.enforce() == 0
    door.connect(2)
    assert connections.enforce() == 2
    assert door.alive() == [False, False, True, True, True]


def test_an_authenticated_connection_stays_among_many_unauthenticated_ones(door: Door) -> None:
    connections = ConnectionLimiter(door.port, unauthenticated=2, per_address=100)
    for one in door.connect(5):
        connections.mark_authenticated(name(one))
    assert connections.enforce() == 0
    door.connect(4)
    assert connections.enforce() == 2
    assert door.alive() == [True] * 5 + [False, False, True, True]


def test_even_with_credentials_one_address_holds_so_many_and_the_newest_go(door: Door) -> None:
    connections = ConnectionLimiter(door.port, unauthenticated=2, per_address=4)
    for _ in range(6):
        for one in door.connect(1):
            connections.mark_authenticated(name(one))
        connections.enforce()
    assert door.alive() == [True] * 4 + [False, False]


def test_a_credential_counts_for_its_own_connection_and_no_longer_than_that(door: Door) -> None:
    connections = ConnectionLimiter(door.port, unauthenticated=1, per_address=100)
    [one] = door.connect(1)
    connections.mark_authenticated(name(one))
    connections.enforce()
    for inside in door.inside:
        inside.close()
    one.close()
    connections.enforce()
    assert not connections._authenticated
    assert not [held for held in connections._open.values() if held is not None]


def test_other_sockets_of_the_process_are_left_alone(door: Door) -> None:
    other = Door()
    with contextlib.closing(other):
        other.connect(5)
        assert ConnectionLimiter(door.port, unauthenticated=1, per_address=1).enforce() == 0
        assert all(other.alive())


def test_a_server_promises_no_more_connections_than_it_may_have_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_descriptor_limit(10) == 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], before[1]))
        assert raise_descriptor_limit(10**9) <= before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_flood_of_silent_connections_does_not_block_clients(tmp_path: Path) -> None:
    limits = AdmissionLimits(strangers=10, connections=200)
    async with a_world(tmp_path / "world", limits=limits) as world:
        host, _, port = world.running.address.rpartition(":")
        watching = follow(world.channel, "Jobs/Watch", world.credentials["ana"])
        reading = aiter(watching)
        await anext(reading)
        flood = [socket.create_connection((host, int(port))) for _ in range(60)]
        try:
            async with asyncio.timeout(10):
                while sum(not cut(one) for one in flood) > 10:
                    await asyncio.sleep(0.05)
            assert await code_of(ask(world.channel, "Access/WhoAmI", world.credentials["ana"])) == "OK"
            async with aio.insecure_channel(
                world.running.address, options=[("grpc.use_local_subchannel_pool", 1)]
            ) as new:
                assert await code_of(ask(new, "Access/WhoAmI", world.credentials["bob"])) == "OK"
            assert not watching.done()
        finally:
            for one in flood:
                one.close()


async def test_beyond_the_limit_in_all_connections_are_refused_and_those_there_go_on(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(connections=5)) as world:
        host, _, port = world.running.address.rpartition(":")
        assert await code_of(ask(world.channel, "Access/WhoAmI", world.credentials["ana"])) == "OK"
        held = [socket.create_connection((host, int(port))) for _ in range(10)]
        try:
            async with asyncio.timeout(10):
                while sum(cut(one) for one in held) < 6:
                    await asyncio.sleep(0.02)
            assert await code_of(ask(world.channel, "Access/WhoAmI", world.credentials["ana"])) == "OK"
        finally:
            for one in held:
                one.close()


async def test_nobody_holds_more_watches_on_the_health_than_streams(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(streams=3)) as world:
        stub = health_pb2_grpc.HealthStub(world.channel)
        open_ones = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(3)]
        for one in open_ones:
            await anext(aiter(one))
        with pytest.raises(aio.AioRpcError) as error:
            await anext(aiter(stub.Watch(health_pb2.HealthCheckRequest())))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for one in open_ones:
            one.cancel()
