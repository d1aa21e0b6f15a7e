"""OpenID Connect: verify signed tokens (JWT) of a configured issuer.

Only RS256, ES256 and EdDSA are accepted, each with a key of the matching type from the issuer's published set: a token
cannot choose a weaker algorithm, nor use a public key as a shared secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from rainbow_sched.model.credential import user_name
from rainbow_sched.model.errors import Invalid, Unauthenticated
from rainbow_sched.service.access.principals import ADMIN, ExternalIdentity

log = logging.getLogger(__name__)
CLOCK_SKEW_SECONDS = 60.0
MAX_TOKEN_CHARACTERS = 16 * 1024
MAX_DOCUMENT_BYTES = 1024 * 1024
FETCH_TIMEOUT_SECONDS = 5.0
KEY_REFRESH_SECONDS = 3_600.0
KEY_EXPIRY_SECONDS = 86_400.0  # while the issuer is unreachable
MIN_REFRESH_INTERVAL = 30.0  # seconds between fetches that unknown key ids cause
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED = "the credential is unknown, expired or revoked"

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
FetchUrl: TypeAlias = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """The trusted issuer, and the mapping of claims to users and groups."""

    issuer: str
    audience: str
    jwks: str = ""  # empty: from the issuer's discovery document
    user_claim: str = "sub"
    groups_claim: str = "groups"
    groups: Mapping[str, str] = field(default_factory=dict)  # issuer's group -> Rainbow's group; others are ignored

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise Invalid("oidc needs both issuer and audience")
        for url in (self.issuer, self.jwks):
            if url:
                checked_url(url)


def checked_url(url: str) -> str:
    """Return `url`; raise Invalid unless it is https, or http on this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _THIS_MACHINE):
        raise Invalid(f"{url[:200]!r}: the URL of an issuer must use https")
    return url


class OidcVerifier:
    """Verifies tokens of one issuer."""

    def __init__(self, options: OidcOptions, fetch: FetchUrl | None = None) -> None:
        self._options = options
        self._keys = _KeySet(options, fetch or fetch_url)

    async def identify(self, text: str, now: float) -> ExternalIdentity | None:
        """Return the identity in a token; None if it is not a JWT. Raise Unauthenticated if it is invalid."""
        parts = text.split(".")
        if len(parts) != 3 or len(text) > MAX_TOKEN_CHARACTERS or not all(_PART.fullmatch(part) for part in parts):
            return None
        try:
            header, claims = _object(parts[0]), _object(parts[1])
            self._check_claims(claims, now)
            algorithm, key = await self._key_of(header, now)
            verify(algorithm, key, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2]))
            return self._identity(claims)
        except (_InvalidToken, InvalidSignature, Invalid) as error:
            log.debug("a token of an issuer was rejected: %s", error or "invalid signature")
            raise Unauthenticated(_REFUSED) from None

    async def _key_of(self, header: Mapping[str, Any], now: float) -> tuple[str, PublicKey]:
        algorithm, id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in _KINDS or not isinstance(id, str):
            raise _InvalidToken("unsupported algorithm")
        if "crit" in header:
            raise _InvalidToken("unsupported extension")
        return algorithm, await self._keys.key(id, algorithm, now)

    def _check_claims(self, claims: Mapping[str, Any], now: float) -> None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self._options.issuer:
            raise _InvalidToken("wrong issuer")
        if self._options.audience not in audiences:
            raise _InvalidToken("wrong audience")
        if now >= _time(claims, "exp", required=True) + CLOCK_SKEW_SECONDS:
            raise _InvalidToken("expired")
        if now < _time(claims, "nbf") - CLOCK_SKEW_SECONDS or now < _time(claims, "iat") - CLOCK_SKEW_SECONDS:
            raise _InvalidToken("not valid yet")

    def _identity(self, claims: Mapping[str, Any]) -> ExternalIdentity:
        name = claims.get(self._options.user_claim)
        if not isinstance(name, str):
            raise _InvalidToken(f"no claim {self._options.user_claim}")
        if user_name(name) == ADMIN:
            raise _InvalidToken("reserved user name")
        claim = claims.get(self._options.groups_claim, [])
        listed = [one for one in claim if isinstance(one, str)] if isinstance(claim, list) else []
        groups = frozenset(self._options.groups[one] for one in listed if one in self._options.groups)
        until = _time(claims, "exp", required=True) + CLOCK_SKEW_SECONDS
        return ExternalIdentity(name=name, groups=groups, until=until)


class _InvalidToken(Exception):
    """The reason why a token is rejected, for the log only."""


class _KeySet:
    """Cache of the issuer's keys, refreshed every hour and when a token names an unknown key."""

    def __init__(self, options: OidcOptions, fetch: FetchUrl) -> None:
        self._options, self._fetch = options, fetch
        self._keys: dict[tuple[str, str], PublicKey] = {}
        self._at = self._tried = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, id: str, algorithm: str, now: float) -> PublicKey:
        if now - self._at >= KEY_REFRESH_SECONDS or (id, algorithm) not in self._keys:
            async with self._fetching:
                known = (id, algorithm) in self._keys and now - self._at < KEY_REFRESH_SECONDS
                if not known and now - self._tried >= MIN_REFRESH_INTERVAL:
                    self._tried = now
                    await self._refresh(now)
        found = self._keys.get((id, algorithm)) if now - self._at < KEY_EXPIRY_SECONDS else None
        if found is None:
            raise _InvalidToken("unknown key")
        return found

    async def _refresh(self, now: float) -> None:
        try:
            url = self._options.jwks or await self._discovered()
            document = json.loads(await self._fetch(url))
            self._keys, self._at = _read_keys(document), now
        except (OSError, ValueError, KeyError, TypeError, AttributeError, Invalid) as error:
            log.warning("cannot read the keys of %s: %s", self._options.issuer, error)

    async def _discovered(self) -> str:
        url = self._options.issuer.rstrip("/") + "/.well-known/openid-configuration"
        document = json.loads(await self._fetch(url))
        if document["issuer"] != self._options.issuer:
            raise Invalid("the discovery document is from another issuer")
        return checked_url(str(document["jwks_uri"]))


def _read_keys(document: Mapping[str, Any]) -> dict[tuple[str, str], PublicKey]:
    """Return the usable signing keys by id and algorithm; ignore other keys."""
    keys: dict[tuple[str, str], PublicKey] = {}
    for entry in document["keys"][:100]:
        if entry.get("use", "sig") != "sig":
            continue
        for algorithm, (kind, read) in _KINDS.items():
            if entry.get("kty") == kind and entry.get("alg", algorithm) == algorithm:
                try:
                    keys[(str(entry.get("kid", "")), algorithm)] = read(entry)
                except (_InvalidToken, ValueError, KeyError, TypeError):
                    log.warning("ignoring an invalid key of the issuer")
    return keys


def _read_rsa(entry: Mapping[str, Any]) -> PublicKey:
    key = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
    if key.key_size < 2048:
        raise _InvalidToken("RSA key below 2048 bits")
    return key


def _read_ec(entry: Mapping[str, Any]) -> PublicKey:
    if entry.get("crv") != "P-256":
        raise _InvalidToken("ES256 needs curve P-256")
    return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), ec.SECP256R1()).public_key()


def _read_ed(entry: Mapping[str, Any]) -> PublicKey:
    if entry.get("crv") != "Ed25519":
        raise _InvalidToken("EdDSA needs curve Ed25519")
    return ed25519.Ed25519PublicKey.from_public_bytes(_decoded(entry["x"]))


_KINDS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], PublicKey]]] = {
    "RS256": ("RSA", _read_rsa),
    "ES256": ("EC", _read_ec),
    "EdDSA": ("OKP", _read_ed),
}


def verify(algorithm: str, key: PublicKey, signed: bytes, signature: bytes) -> None:
    """Raise InvalidSignature unless `signature` is a valid signature of `signed` by `key`."""
    if algorithm == "RS256" and isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    elif algorithm == "ES256" and isinstance(key, ec.EllipticCurvePublicKey) and len(signature) == 64:
        pair = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
        key.verify(pair, signed, ec.ECDSA(hashes.SHA256()))
    elif algorithm == "EdDSA" and isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signature, signed)
    else:
        raise InvalidSignature


def _object(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        raise _InvalidToken("malformed") from None
    if not isinstance(found, dict):
        raise _InvalidToken("malformed")
    return found


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _InvalidToken("malformed") from None


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _time(claims: Mapping[str, Any], name: str, *, required: bool = False) -> float:
    value = claims.get(name)
    if value is None and not required:
        return float("-inf")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise _InvalidToken(f"{name} is not a time")
    return float(value)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


async def fetch_url(url: str) -> bytes:
    """Fetch a small document from an issuer, without following redirects."""

    def work() -> bytes:
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(checked_url(url), timeout=FETCH_TIMEOUT_SECONDS) as answer:
                data: bytes = answer.read(MAX_DOCUMENT_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"{url} answers {error.code}") from None
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"{url} is too long")
        return data

    return await asyncio.to_thread(work)
