"""OpenID Connect: verify signed tokens (JWT) of a configured issuer.

PyJWT verifies signature, issuer and audience. Only RS256, ES256 and EdDSA are accepted, each with a key of the matching
type from the issuer's published set: a token cannot choose a weaker algorithm, nor use a public key as a shared secret.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jwt
from jwt.types import Options

from rainbow_sched.model.credential import user_name
from rainbow_sched.model.errors import Invalid, Unauthenticated
from rainbow_sched.service.access.principals import ADMIN, INVALID_CREDENTIAL, ExternalIdentity

log = logging.getLogger(__name__)
CLOCK_SKEW_SECONDS = 60.0  # that the clocks of issuer and server may differ
MAX_TOKEN_CHARS = 16 * 1024  # bounds the work on one token; a longer text is not read as a JWT
MAX_DOCUMENT_BYTES = 1024 * 1024  # bounds the memory of one answer of the issuer
FETCH_TIMEOUT_SECONDS = 5.0  # bounds how long a call waits for an issuer that does not respond
KEY_REFRESH_SECONDS = 3_600.0  # after this the keys are read again, so that withdrawn ones are dropped
KEY_EXPIRY_SECONDS = 86_400.0  # keys stay in use for this long while the issuer is unreachable
MIN_REFRESH_INTERVAL_SECONDS = 30.0  # between two fetches, so that invalid tokens cannot cause more
ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}  # by type of key
CURVES = {"EC": "P-256", "OKP": "Ed25519"}
MIN_RSA_BITS = 2048  # RFC 7518 requires it for RS256
MAX_KEYS = 100  # bounds the memory for the keys of an issuer
_PUBLIC_MEMBERS = ("kty", "crv", "n", "e", "x", "y")
_CHECKS: Options = {  # PyJWT would read the clock itself, and check claims that we do not use
    "verify_iss": True,
    "verify_aud": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_PART = re.compile(r"[A-Za-z0-9_-]+")

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
        if len(parts) != 3 or len(text) > MAX_TOKEN_CHARS or not all(_PART.fullmatch(part) for part in parts):
            return None
        try:
            unverified = self._decode(text, None)
            _check_times(unverified["payload"], now)
            key = await self._key_of(unverified["header"], now)
            return self._identity(self._decode(text, key)["payload"])
        except (jwt.PyJWTError, _InvalidToken, Invalid, RecursionError) as error:
            log.debug("a token of an issuer was rejected: %s", error)
            raise Unauthenticated(INVALID_CREDENTIAL) from None

    def _decode(self, text: str, key: jwt.PyJWK | None) -> dict[str, Any]:
        """Return header and payload; check issuer and audience, and the signature if there is a key."""
        return jwt.decode_complete(
            text,
            key or "",
            algorithms=[key.algorithm_name] if key else None,
            audience=self._options.audience,
            issuer=self._options.issuer,
            options={**_CHECKS, "verify_signature": key is not None},
        )

    async def _key_of(self, header: Mapping[str, Any], now: float) -> jwt.PyJWK:
        algorithm, id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS.values() or not isinstance(id, str):
            raise _InvalidToken("unsupported algorithm")
        if "crit" in header:
            raise _InvalidToken("unsupported extension")
        return await self._keys.key(id, algorithm, now)

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
        self._keys: dict[tuple[str, str], jwt.PyJWK] = {}
        self._at = self._tried = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, id: str, algorithm: str, now: float) -> jwt.PyJWK:
        if now - self._at >= KEY_REFRESH_SECONDS or (id, algorithm) not in self._keys:
            async with self._fetching:
                known = (id, algorithm) in self._keys and now - self._at < KEY_REFRESH_SECONDS
                if not known and now - self._tried >= MIN_REFRESH_INTERVAL_SECONDS:
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


def _read_keys(document: Mapping[str, Any]) -> dict[tuple[str, str], jwt.PyJWK]:
    """Return the usable signing keys by id and algorithm; ignore other keys."""
    keys: dict[tuple[str, str], jwt.PyJWK] = {}
    for entry in document["keys"][:MAX_KEYS]:
        algorithm = ALGORITHMS.get(str(entry.get("kty")))
        if algorithm is None or entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
            continue
        try:
            keys[(str(entry.get("kid", "")), algorithm)] = _read_key(entry, algorithm)
        except (jwt.PyJWTError, _InvalidToken, ValueError, KeyError, TypeError):
            log.warning("ignoring an invalid key of the issuer")
    return keys


def _read_key(entry: Mapping[str, Any], algorithm: str) -> jwt.PyJWK:
    if entry.get("crv") != CURVES.get(entry["kty"]):
        raise _InvalidToken("wrong curve")
    key = jwt.PyJWK({name: entry[name] for name in _PUBLIC_MEMBERS if name in entry}, algorithm)
    if algorithm == "RS256" and key.key.key_size < MIN_RSA_BITS:
        raise _InvalidToken(f"RSA key below {MIN_RSA_BITS} bits")
    return key


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    if now >= _time(claims, "exp", required=True) + CLOCK_SKEW_SECONDS:
        raise _InvalidToken("expired")
    if now < _time(claims, "nbf") - CLOCK_SKEW_SECONDS or now < _time(claims, "iat") - CLOCK_SKEW_SECONDS:
        raise _InvalidToken("not valid yet")


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
