"""The first word with an unknown server: its authority is taken only if it has the fingerprint that was expected.

Nothing secret is sent before that; a man in the middle who shows another authority is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
from typing import Any

from rainbow_sched.model.errors import Denied, Invalid, Unavailable

_SHAPE = re.compile(r"sha256:([0-9a-f]{64})")


def authority_of(host: str, port: int, fingerprint: str, timeout: float = 10.0) -> str:
    """The PEM of the certificate in the server's chain that has this fingerprint."""
    expected = _SHAPE.fullmatch(fingerprint.lower().replace("-", ""))
    if expected is None:
        raise Invalid("a fingerprint reads sha256: and 64 hexadecimal digits; rainbow server init prints it")
    for der in chain_of(host, port, timeout):
        if hmac.compare_digest(hashlib.sha256(der).hexdigest(), expected[1]):
            return ssl.DER_cert_to_PEM_cert(der)
    raise Denied(
        f"{host}:{port} shows another authority than {fingerprint[:20]}...; either the fingerprint is old, or this is "
        "not the server you mean"
    )


def chain_of(host: str, port: int, timeout: float) -> list[bytes]:
    """The certificates that a server shows, unverified."""
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
        raise Unavailable(f"cannot speak TLS with {host}:{port}: {error}") from None
    return [one if isinstance(one, bytes) else ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain]
