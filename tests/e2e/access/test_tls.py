"""TLS on a real port: own authority, client certificates, reload without a restart, the prototype's clients."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from rainbow_sched.cli.commands.login import authority_of, chain_of
from rainbow_sched.model.errors import Denied, Invalid
from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc, rainbow_pb2, rainbow_pb2_grpc
from rainbow_sched.server.tls import CertificateReloader, TlsFiles, fingerprint, make_authority, renew
from tests.support.calls import Calls
from tests.support.server_process import RAINBOW, SECRET, ServerProcess, a_server_process
from tests.support.service import a_graph

pytestmark = pytest.mark.timeout(120)
NAMES = ("localhost", "127.0.0.1")
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A folder with an authority and certificates."""
    make_authority(tmp_path / "tls", NAMES, NOW)
    return tmp_path / "tls"


@pytest.fixture
def server(tmp_path: Path, authority: Path) -> Iterator[ServerProcess]:
    """A server with TLS."""
    files = ("--tls-cert", str(authority / "server.pem"), "--tls-key", str(authority / "server.key"))
    with a_server_process(tmp_path, arguments=files) as running:
        yield running


def channel(server: ServerProcess, authority: Path, *, mutual: bool = False) -> grpc.Channel:
    """A client's channel, with a certificate of its own if asked to."""
    ca = (authority / "ca.pem").read_bytes()
    key, chain = ((authority / f"agent.{end}").read_bytes() if mutual else None for end in ("key", "pem"))
    return grpc.secure_channel(server.address, grpc.ssl_channel_credentials(ca, key, chain))


def shown(server: ServerProcess) -> str:
    """Return the fingerprint of the certificate on a new connection."""
    return fingerprint(chain_of("127.0.0.1", server.port, 10)[0])


def test_the_prototypes_calls_work_over_tls(server: ServerProcess, authority: Path) -> None:
    with channel(server, authority) as secure:
        stub = rainbow_pb2_grpc.RainbowSchedulerStub(secure)
        request = rainbow_pb2.RegisterRequest(name="east", secret=SECRET, nodes=a_graph().decode(), subsystem="cluster")
        made = stub.Register(request, timeout=20)
        assert made.token
        found = memory_pb2_grpc.MemoryGraphStub(secure).Satisfy(
            memory_pb2.SatisfyRequest(payload='{"version":1,"resources":{"n":{"type":"node","count":1}}}'), timeout=20
        )
        assert list(found.clusters) == ["east"]


def test_plain_text_is_refused_on_a_tls_port(server: ServerProcess) -> None:
    with server.channel() as plain, pytest.raises(grpc.RpcError) as refused:
        Calls(plain, server.admin_token).register("east", a_graph())
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_old_protocols_are_refused(server: ServerProcess) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(raw)


def test_valid_new_certificates_are_loaded_without_a_restart(server: ServerProcess, authority: Path) -> None:
    before = shown(server)
    (authority / "server.pem").write_text("-----BEGIN nonsense")
    assert shown(server) == before
    renew(authority, NAMES, NOW)
    assert shown(server) != before
    with channel(server, authority) as secure:
        assert Calls(secure, server.admin_token).register("east", a_graph()).token


def test_with_a_client_authority_only_its_certificates_get_in(tmp_path: Path, authority: Path) -> None:
    files = ("--tls-cert", str(authority / "server.pem"), "--tls-key", str(authority / "server.key"))
    make_authority(tmp_path / "stranger", NAMES, NOW)
    os.replace(tmp_path / "stranger/ca.pem", tmp_path / "stranger/their-ca.pem")
    (tmp_path / "stranger/ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    with a_server_process(tmp_path, arguments=(*files, "--tls-ca", str(authority / "ca.pem"))) as server:
        with channel(server, authority, mutual=True) as secure:
            assert Calls(secure, server.admin_token).register("east", a_graph()).token
        for folder, mutual in ((authority, False), (tmp_path / "stranger", True)):
            with channel(server, folder, mutual=mutual) as secure, pytest.raises(grpc.RpcError):
                Calls(secure, server.admin_token).register("west", a_graph())


def test_an_authority_is_taken_by_its_fingerprint_alone(server: ServerProcess, authority: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert((authority / "ca.pem").read_text())
    assert authority_of("127.0.0.1", server.port, fingerprint(der)) == (authority / "ca.pem").read_text()
    with pytest.raises(Denied, match="another authority"):
        authority_of("127.0.0.1", server.port, "sha256:" + "0" * 64)


def test_init_then_login_by_fingerprint_is_all_it_takes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = subprocess.run(
        [*RAINBOW, "server", "init", "--data-dir", str(data), "--name", "localhost"],
        env=ServerProcess(tmp_path).environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    print_of_authority = made.stdout.split()[-1]
    files = ("--tls-cert", str(data / "tls/server.pem"), "--tls-key", str(data / "tls/server.key"))
    with a_server_process(tmp_path, arguments=files) as server:
        environment = server.environment() | {"XDG_CONFIG_HOME": str(tmp_path / "mine")}
        address = f"localhost:{server.port}"
        for command, text in (
            (["login", address, "--fingerprint", print_of_authority], server.admin_token),
            (["whoami"], ""),
        ):
            done = subprocess.run(
                [*RAINBOW, *command],
                env=environment,
                input=text,
                capture_output=True,
                text=True,
                timeout=60,
                cwd=tmp_path,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("admin")


def test_a_key_that_others_can_read_or_of_another_certificate_is_refused(tmp_path: Path, authority: Path) -> None:
    files = TlsFiles(authority / "server.pem", authority / "server.key")
    os.chmod(files.key, 0o640)
    with pytest.raises(Invalid, match="chmod 600"):
        CertificateReloader(files)
    with pytest.raises(Invalid, match="together"):
        CertificateReloader(TlsFiles(authority / "server.pem", authority / "agent.key"))
