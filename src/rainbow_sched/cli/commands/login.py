"""`rainbow login`: save a server and a token in the config file after checking them."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import sys
from dataclasses import replace
from typing import Any

import click

from rainbow_sched.cli.input.graph_files import config_path_to_write
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected
from rainbow_sched.client.config import save
from rainbow_sched.client.settings import ClientSettings, Tls
from rainbow_sched.model.errors import Denied, Invalid, Unavailable

EPILOG = """\b
The token is read from the terminal without echo, from stdin, or from --token-file;
not from the command line, which other users of the machine can read.

\b
Examples:
  rainbow login rainbow.lab.edu:50051
  rainbow login rainbow.lab.edu:50051 --fingerprint sha256:9f86d0...
  rainbow login < my.token
"""
_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})")


@click.command(epilog=EPILOG)
@click.argument("address", required=False)
@click.option("--fingerprint", metavar="sha256:HEX", help="Trust the server's authority if it has this fingerprint.")
@connected
def login(connector: Connector, address: str | None, fingerprint: str | None) -> None:
    """Check a token against the server ADDRESS and save both in the config file (mode 0600)."""
    settings = (connector._replace(server=address) if address else connector).settings()
    if fingerprint:
        settings = _trusting(settings, fingerprint)
    text = _token() if not connector.token_file else settings.token
    settings = replace(settings, token=text, cluster_tokens={})
    who = connector.call(lambda client: client.who_am_i(), settings)
    path = config_path_to_write(settings)
    config = settings.config.with_value(text, "token")
    if address:
        config = config.with_value(address, "server")
    save(config, path)
    print_message(f"you are {who.name}; server and token are in {path}")


def _trusting(settings: ClientSettings, fingerprint: str) -> ClientSettings:
    """Return settings that trust the server's authority; save its certificate beside the config file."""
    address = settings.servers[0]._replace(tls=True)
    pem = authority_of(address.host, address.port, fingerprint)
    path = config_path_to_write(settings).with_name("rainbow-ca.pem")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pem)
    tls = Tls(str(path.resolve()), settings.tls.cert, settings.tls.key)
    config = settings.config.with_value(tls.ca, "tls", "ca")
    return replace(settings, servers=(address,), tls=tls, config=config)


def _token() -> str:
    if sys.stdin.isatty():
        text = str(click.prompt("Token", hide_input=True))
    else:
        text = sys.stdin.readline(4096)
    if not text.strip():
        raise Invalid("no token was given")
    return text.strip()


def authority_of(host: str, port: int, fingerprint: str, timeout: float = 10.0) -> str:
    """Return the certificate (PEM) in the server's chain that has this fingerprint; raise Denied if there is none.

    No secret is sent before this check, so an attacker in the middle learns nothing.
    """
    expected = _FINGERPRINT.fullmatch(fingerprint.lower().replace("-", ""))
    if expected is None:
        raise Invalid("a fingerprint is sha256: and 64 hexadecimal digits; rainbow server init prints it")
    for der in chain_of(host, port, timeout):
        if hmac.compare_digest(hashlib.sha256(der).hexdigest(), expected[1]):
            return ssl.DER_cert_to_PEM_cert(der)
    raise Denied(
        f"{host}:{port} presents another authority than {fingerprint[:20]}...; the fingerprint is outdated, or this is "
        "a different server"
    )


def chain_of(host: str, port: int, timeout: float) -> list[bytes]:
    """Return the certificates of a server, without verification."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((host, port), timeout) as raw, context.wrap_socket(raw) as wrapped:
            sock: Any = wrapped
            inner = sock if hasattr(sock, "get_unverified_chain") else sock._sslobj  # public since 3.13
            chain = inner.get_unverified_chain() or []
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"cannot connect with TLS to {host}:{port}: {error}") from None
    return [one if isinstance(one, bytes) else ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain]
