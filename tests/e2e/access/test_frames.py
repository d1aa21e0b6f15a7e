"""Headers and frames that no well-behaved client sends, against a real server."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.raw_http2 import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    Raw,
    block,
    call_headers,
    frame,
    status,
)
from tests.support.server_process import ServerProcess, a_server_process

pytestmark = pytest.mark.timeout(120)
WHO = "/rainbow.v2.Access/WhoAmI"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server."""
    with a_server_process(tmp_path_factory.mktemp("server"), arguments=("--log-level", "warning")) as running:
        yield running


def memory(server: ServerProcess) -> int:
    """Resident bytes of the server."""
    assert server.process is not None
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def healthy(server: ServerProcess) -> float:
    """Seconds that the health took to answer."""
    with server.channel() as channel:
        began = time.monotonic()
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        return time.monotonic() - began


TRICKS: dict[str, Callable[[str], list[tuple[str, str]]]] = {
    "two bearers": lambda t: [*call_headers(WHO, authorization=f"Bearer {t}"), ("authorization", f"Bearer {t}")],
    "a bad bearer first": lambda t: [*call_headers(WHO, authorization="Bearer x"), ("authorization", f"Bearer {t}")],
    "a list of bearers": lambda t: call_headers(WHO, authorization=f"Bearer x, Bearer {t}"),
    "a binary bearer": lambda t: [*call_headers(WHO), ("authorization-bin", f"Bearer {t}")],
    "a bearer behind a line end": lambda t: [*call_headers(WHO), ("x-a", f"b\r\nauthorization: Bearer {t}")],
    "a bearer in capitals": lambda t: [*call_headers(WHO), ("Authorization", f"Bearer {t}")],
    "a second path": lambda t: [*call_headers("/grpc.health.v1.Health/Check"), (":path", WHO)],
    "two slashes": lambda t: call_headers(f"/{WHO}", authorization=f"Bearer {t}"),
    "a query": lambda t: call_headers(f"{WHO}?a=b", authorization=f"Bearer {t}"),
    "an escaped slash": lambda t: call_headers("/rainbow.v2.Access%2FWhoAmI", authorization=f"Bearer {t}"),
    "a NUL": lambda t: call_headers(f"{WHO}\0", authorization=f"Bearer {t}"),
    "another server's address": lambda t: call_headers(f"http://other{WHO}", authorization=f"Bearer {t}"),
    "no path": lambda t: call_headers("", authorization=f"Bearer {t}"),
    "a cookie": lambda t: call_headers(WHO, cookie=f"token={t}"),
    "a proxy's header": lambda t: call_headers(WHO, x_forwarded_user="admin", x_remote_user="admin"),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_header_trick_opens_nothing(server: ServerProcess, trick: str) -> None:
    raw = Raw(server.port)
    raw.message(raw.begin(TRICKS[trick](server.admin_token)))
    answer = raw.answer(3)
    raw.close()
    assert status(answer) not in ("", "0"), answer
    assert b"admin" not in answer.replace(b"administrator", b"")


def test_a_plain_call_by_hand_is_answered_so_that_the_tricks_above_mean_something(server: ServerProcess) -> None:
    raw = Raw(server.port)
    raw.message(raw.begin(call_headers(WHO, authorization=f"Bearer {server.admin_token}")))
    assert status(raw.answer()) == "0"
    raw.close()


def resets(raw: Raw) -> bytes:
    out = b""
    for _ in range(100):
        raw.stream += 2
        out += frame(HEADERS, END_HEADERS, raw.stream, block(call_headers(WHO)))
        out += frame(RST_STREAM, 0, raw.stream, b"\0\0\0\x08")
    return out


FLOODS: dict[str, Callable[[Raw], bytes]] = {
    "streams that are reset at once": resets,
    "pings": lambda raw: frame(PING, 0, 0, b"12345678") * 100,
    "settings": lambda raw: frame(SETTINGS, 0, 0) * 100,
    "headers without end": lambda raw: frame(CONTINUATION, 0, 1, block([("x-pad", "y" * 8_000)])),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_frames_neither_fills_the_memory_nor_keeps_others_out(server: ServerProcess, flood: str) -> None:
    before, over, worst = memory(server), threading.Event(), [0.0]

    def monitor() -> None:
        while not over.is_set():
            worst[0] = max(worst[0], healthy(server))

    watching = threading.Thread(target=monitor)
    watching.start()
    raw, until = Raw(server.port), time.monotonic() + 2
    raw.connection.settimeout(1)
    try:
        if flood == "headers without end":
            raw.connection.sendall(frame(HEADERS, 0, 1, block(call_headers(WHO))))
        while time.monotonic() < until:
            raw.connection.sendall(FLOODS[flood](raw))
    except OSError:
        pass  # the server reads no more of it, or has hung up
    raw.close()
    over.set()
    watching.join()
    print(f"{flood}: health within {worst[0]:.3f} s, memory {memory(server) - before >> 20:+} MiB")
    assert worst[0] < 2.0
    assert memory(server) - before < 100 * 2**20


def test_a_credential_with_a_stray_byte_is_not_in_the_log(server: ServerProcess) -> None:
    raw = Raw(server.port)
    raw.message(raw.begin(call_headers(WHO, authorization=f"Bearer {server.admin_token}\xff")))
    assert status(raw.answer()) == "16"
    raw.close()
    assert server.admin_token not in server.log
    assert "Traceback" not in server.log


def test_a_silent_connection_and_other_languages_are_hung_up_on(server: ServerProcess) -> None:
    for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0-x\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            connection.sendall(said)
            while connection.recv(4_096):
                pass
