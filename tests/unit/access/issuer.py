"""An OpenID issuer on this machine: a real HTTP server with discovery, keys, and tokens signed in every way."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def text_of(data: bytes | dict[str, Any]) -> str:
    """URL-safe base64 without padding, of bytes or of JSON."""
    raw = json.dumps(data).encode() if isinstance(data, dict) else data
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value: int, size: int) -> str:
    """A number of a key."""
    return text_of(value.to_bytes(size, "big"))


@dataclass
class Issuer:
    """Keys by id, and how often they were asked for."""

    url: str = ""
    keys: dict[str, Any] = field(default_factory=dict)
    published: set[str] = field(default_factory=set)
    others: list[dict[str, Any]] = field(default_factory=list)  # further entries of the key set, as they are
    asked: int = 0
    down: bool = False

    def new_key(self, id: str, kind: str) -> None:
        """A key of its own for `kind`, published at once."""
        make = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
            "Ed448": ed448.Ed448PrivateKey.generate,  # not offered
            "weak": lambda: rsa.generate_private_key(65537, 1024),  # must be refused
        }
        self.keys[id] = make[kind]()
        self.published.add(id)

    def document(self) -> dict[str, Any]:
        """The key set as it is published."""
        return {
            "keys": [{"kid": id, "use": "sig", **_public(self.keys[id])} for id in sorted(self.published)] + self.others
        }

    def token(self, id: str, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        """A token signed with a key by the way that fits it."""
        key = self.keys[id]
        head = {"alg": _algorithm(key), "kid": id, "typ": "JWT", **(header or {})}
        signed = f"{text_of(head)}.{text_of(claims)}"
        return f"{signed}.{text_of(_signature(key, signed.encode()))}"

    def confused(self, id: str, claims: dict[str, Any]) -> str:
        """A token "signed" with the public key as if it were a shared secret."""
        pem = (
            self.keys[id]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        return secret_signed(id, pem, claims)


def secret_signed(id: str, secret: bytes, claims: dict[str, Any]) -> str:
    """A token signed with a shared secret."""
    signed = f"{text_of({'alg': 'HS256', 'kid': id})}.{text_of(claims)}"
    return f"{signed}.{text_of(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def unsigned(claims: dict[str, Any], alg: str = "none") -> str:
    """A token that says it needs no signature."""
    return f"{text_of({'alg': alg})}.{text_of(claims)}."


def _algorithm(key: Any) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    return "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "EdDSA"


def _signature(key: Any, signed: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    made: bytes = key.sign(signed)
    return made


def _public(key: Any) -> dict[str, str]:
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": number(numbers.n, key.key_size // 8), "e": number(numbers.e, 3)}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = public.public_numbers()
        return {"kty": "EC", "crv": "P-256", "x": number(numbers.x, 32), "y": number(numbers.y, 32)}
    if isinstance(key, ed448.Ed448PrivateKey):
        return {"kty": "OKP", "crv": "Ed448", "x": text_of(public.public_bytes_raw())}
    return {"kty": "OKP", "crv": "Ed25519", "x": text_of(public.public_bytes_raw())}


@contextlib.contextmanager
def running_issuer() -> Iterator[Issuer]:
    """An issuer that answers on a port of its own."""
    issuer = Issuer()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            if issuer.down:
                self.send_error(503)
                return
            if self.path == "/.well-known/openid-configuration":
                body = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
            else:
                issuer.asked += 1
                body = issuer.document()
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
