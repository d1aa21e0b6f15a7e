"""Credentials and what they open: kinds, scopes, and the names of callers.

A credential reads `rbw_<kind>_<id>_<secret>`; only its id and the SHA-256 of the whole are
stored. 256 random bits need no slow hash.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from dataclasses import dataclass

from rainbow.model.errors import Invalid

_SHAPE = re.compile(r"rbw_([a-z]+)_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_SCOPE = re.compile(r"(admin|(submit|agent|register):[A-Za-z0-9._*?@-]{1,128}|job:(read|cancel):(own|group|all))")


class Kind(enum.StrEnum):
    """What a credential is for; it is written in the credential itself, so that a leaked one can be recognised."""

    REGISTRATION = "reg"
    SUBMIT = "sub"
    AGENT = "agt"
    USER = "usr"
    ADMIN = "adm"
    JOIN = "join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One stored credential; the secret itself is nowhere."""

    id: str
    kind: Kind
    digest: bytes
    owner: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    uses_left: int | None = None  # a join token: one
    note: str = ""

    def __post_init__(self) -> None:
        for scope in self.scopes:
            if not _SCOPE.fullmatch(scope):
                raise Invalid(
                    f"{scope!r} is not a scope; write admin, submit:CLUSTER, agent:CLUSTER, register:PATTERN, "
                    "job:read:own|group|all or job:cancel:own|group|all"
                )

    def matches(self, secret: str) -> bool:
        """True if `secret` is the credential's text; takes the same time either way."""
        return hmac.compare_digest(self.digest, digest(secret))

    def live(self, now: float) -> bool:
        """True if it is neither revoked, nor expired, nor used up."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at) and self.uses_left != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling, and how far that reaches."""

    name: str  # user:ana, cluster:perl, admin:..., anonymous
    kind: Kind | None = None  # None: anonymous
    credential: str = ""  # the id of the credential used
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @property
    def admin(self) -> bool:
        """True if everything is open."""
        return "admin" in self.scopes


def digest(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def compose(kind: Kind, id: str, secret: str) -> str:
    """The text of a credential."""
    return f"rbw_{kind.value}_{id}_{secret}"


def id_of(text: str) -> str | None:
    """The id inside a credential's text, or None if it has not the shape of one."""
    found = _SHAPE.fullmatch(text)
    return found[2] if found else None
