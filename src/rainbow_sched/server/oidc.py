"""OpenID Connect: people whom a configured issuer vouches for, by signed tokens (JWT) that are checked here.

Only RS256, ES256 and EdDSA are taken, each with a key of its own kind from the issuer's
published set: a token cannot choose a weaker way, nor have a public key used as a shared secret.
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
SKEW = 60.0  # seconds by which clocks may differ
MOST_TOKEN = 16 * 1024
MOST_DOCUMENT = 1024 * 1024
FETCH_TIMEOUT = 5.0
FRESH = 3_600.0  # keys are fetched again after this
USABLE = 86_400.0  # and used for so long while the issuer is out of reach
AGAIN = 30.0  # an unknown key id makes us look again, but not more often than this
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED = "the credential is unknown, expired or revoked"

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """Whom to believe, and how claims become users and groups."""

    issuer: str
    audience: str
    jwks: str = ""  # empty: as the issuer's discovery document says
    user_claim: str = "sub"
    groups_claim: str = "groups"
    groups: Mapping[str, str] = field(default_factory=dict)  # the issuer's name of a group -> ours; others are dropped

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise Invalid("oidc needs both issuer and audience")
        for url in (self.issuer, self.jwks):
            if url:
                checked_url(url)


def checked_url(url: str) -> str:
    """`url` if what comes from it can be believed: https, or http on this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _THIS_MACHINE):
        raise Invalid(f"{url[:200]!r}: an issuer is reached by https")
    return url


class OidcVerifier:
    """Checks tokens of one issuer."""

    def __init__(self, options: OidcOptions, fetch: Fetch | None = None) -> None:
        self._options = options
        self._keys = _KeySet(options, fetch or fetch_url)

    async def identify(self, text: str, now: float) -> ExternalIdentity | None:
        """The person of a token; None if it is no JWT at all, Unauthenticated if it is a wrong one."""
        parts = text.split(".")
        if len(parts) != 3 or len(text) > MOST_TOKEN or not all(_PART.fullmatch(part) for part in parts):
            return None
        try:
            header, claims = _object(parts[0]), _object(parts[1])
            self._check_claims(claims, now)
            algorithm, key = await self._key_of(header, now)
            verify(algorithm, key, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2]))
            return self._identity(claims)
        except (_Wrong, InvalidSignature, Invalid) as error:
            log.debug("a token of an issuer was refused: %s", error or "its signature is wrong")
            raise Unauthenticated(_REFUSED) from None

    async def _key_of(self, header: Mapping[str, Any], now: float) -> tuple[str, PublicKey]:
        algorithm, id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in _KINDS or not isinstance(id, str):
            raise _Wrong("it is signed in a way that is not taken")
        if "crit" in header:
            raise _Wrong("it asks for an extension")
        return algorithm, await self._keys.key(id, algorithm, now)

    def _check_claims(self, claims: Mapping[str, Any], now: float) -> None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self._options.issuer:
            raise _Wrong("it is of another issuer")
        if self._options.audience not in audiences:
            raise _Wrong("it is for somebody else")
        if now >= _time(claims, "exp", required=True) + SKEW:
            raise _Wrong("it has expired")
        if now < _time(claims, "nbf") - SKEW or now < _time(claims, "iat") - SKEW:
            raise _Wrong("it is not valid yet")

    def _identity(self, claims: Mapping[str, Any]) -> ExternalIdentity:
        name = claims.get(self._options.user_claim)
        if not isinstance(name, str):
            raise _Wrong(f"it has no {self._options.user_claim}")
        if user_name(name) == ADMIN:
            raise _Wrong("nobody outside names the first administrator")
        told = claims.get(self._options.groups_claim, [])
        listed = [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
        groups = frozenset(self._options.groups[one] for one in listed if one in self._options.groups)
        return ExternalIdentity(name=name, groups=groups, until=_time(claims, "exp", required=True) + SKEW)


class _Wrong(Exception):
    """Why a token is refused; for the log alone."""


class _KeySet:
    """The issuer's keys: fetched, kept for an hour, fetched again when a token names one that is not there."""

    def __init__(self, options: OidcOptions, fetch: Fetch) -> None:
        self._options, self._fetch = options, fetch
        self._keys: dict[tuple[str, str], PublicKey] = {}
        self._at = self._tried = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, id: str, algorithm: str, now: float) -> PublicKey:
        if now - self._at >= FRESH or (id, algorithm) not in self._keys:
            async with self._fetching:
                known = (id, algorithm) in self._keys and now - self._at < FRESH
                if not known and now - self._tried >= AGAIN:
                    self._tried = now
                    await self._refresh(now)
        found = self._keys.get((id, algorithm)) if now - self._at < USABLE else None
        if found is None:
            raise _Wrong("its key is not among the issuer's")
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
            raise Invalid("the discovery document is of another issuer")
        return checked_url(str(document["jwks_uri"]))


def _read_keys(document: Mapping[str, Any]) -> dict[tuple[str, str], PublicKey]:
    """Usable signing keys by id and algorithm; what is something else is left out."""
    found: dict[tuple[str, str], PublicKey] = {}
    for entry in document["keys"][:100]:
        if entry.get("use", "sig") != "sig":
            continue
        for algorithm, (kind, read) in _KINDS.items():
            if entry.get("kty") == kind and entry.get("alg", algorithm) == algorithm:
                try:
                    found[(str(entry.get("kid", "")), algorithm)] = read(entry)
                except (_Wrong, ValueError, KeyError, TypeError):
                    log.warning("a key of the issuer cannot be used and is left out")
    return found


def _read_rsa(entry: Mapping[str, Any]) -> PublicKey:
    key = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
    if key.key_size < 2048:
        raise _Wrong("an RSA key has at least 2048 bits")
    return key


def _read_ec(entry: Mapping[str, Any]) -> PublicKey:
    if entry.get("crv") != "P-256":
        raise _Wrong("ES256 is P-256")
    return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), ec.SECP256R1()).public_key()


def _read_ed(entry: Mapping[str, Any]) -> PublicKey:
    if entry.get("crv") != "Ed25519":
        raise _Wrong("EdDSA is Ed25519")
    return ed25519.Ed25519PublicKey.from_public_bytes(_decoded(entry["x"]))


_KINDS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], PublicKey]]] = {
    "RS256": ("RSA", _read_rsa),
    "ES256": ("EC", _read_ec),
    "EdDSA": ("OKP", _read_ed),
}


def verify(algorithm: str, key: PublicKey, signed: bytes, signature: bytes) -> None:
    """Raise InvalidSignature unless `signature` is the key's over `signed`."""
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
        raise _Wrong("it cannot be read") from None
    if not isinstance(found, dict):
        raise _Wrong("it cannot be read")
    return found


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _Wrong("it cannot be read") from None


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _time(claims: Mapping[str, Any], name: str, *, required: bool = False) -> float:
    value = claims.get(name)
    if value is None and not required:
        return float("-inf")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise _Wrong(f"its {name} is no time")
    return float(value)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


async def fetch_url(url: str) -> bytes:
    """A small document from an issuer; redirections are not followed."""

    def work() -> bytes:
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(checked_url(url), timeout=FETCH_TIMEOUT) as answer:
                data: bytes = answer.read(MOST_DOCUMENT + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"{url} answers {error.code}") from None
        if len(data) > MOST_DOCUMENT:
            raise ValueError(f"{url} is too long")
        return data

    return await asyncio.to_thread(work)
