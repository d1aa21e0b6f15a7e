"""Credentials and what they open: kinds, scopes, and the names of callers.

A credential reads `rbw_<kind>_<id>_<secret>`; only its id and the SHA-256 of the whole are
stored. 256 random bits need no slow hash.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rainbow_sched.model.errors import Invalid

_SHAPE = re.compile(r"rbw_([a-z]+)_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ID = re.compile(r"[a-z0-9]{12}")
_SCOPE = re.compile(r"(admin|(submit|agent|register):@?[A-Za-z0-9._*?-]{1,128}|job:(read|cancel):(own|group|all))")
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_RESERVED = frozenset({"anonymous", "registrant", "server", "nobody"})
_REACHES = {"own": 0, "group": 1, "all": 2}


class CredentialKind(enum.StrEnum):
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
    kind: CredentialKind
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
            checked_scope(scope)

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
    kind: CredentialKind | None = None  # None: anonymous
    credential: str = ""  # the id of the credential used
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    group_members: frozenset[str] = frozenset()  # users who share a group, if a scope reaches to them
    until: float | None = None  # when the credential ends; None: never
    renew: bool = False  # an agent whose secret is to be renewed

    @property
    def admin(self) -> bool:
        """True if everything is open."""
        return "admin" in self.scopes


def digest(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def compose(kind: CredentialKind, id: str, secret: str) -> str:
    """The text of a credential."""
    return f"rbw_{kind.value}_{id}_{secret}"


def id_of(text: str) -> str | None:
    """The id inside a credential's text, or None if it has not the shape of one."""
    found = _SHAPE.fullmatch(text)
    return found[2] if found else None


def checked_id(text: str) -> str:
    """`text` if it can be the id of a credential."""
    if not _ID.fullmatch(text):
        raise Invalid("the id of a credential is 12 small letters and digits")
    return text


def checked_scope(text: str) -> str:
    """`text` if it is a scope."""
    if not _SCOPE.fullmatch(text):
        raise Invalid(
            f"{text[:80]!r} is not a scope; write admin, submit:CLUSTER, submit:@GROUP, agent:CLUSTER, "
            "register:PATTERN, job:read:own|group|all or job:cancel:own|group|all"
        )
    return text


def user_name(text: str) -> str:
    """`text` if it can be the name of a user or a group."""
    if not _USER.fullmatch(text) or text in _RESERVED:
        raise Invalid(
            f"{text[:40]!r} cannot be the name of a user or group: use 1 to 63 letters, digits, dots, dashes, "
            f"underscores or @, beginning with a letter or digit, and none of {', '.join(sorted(_RESERVED))}"
        )
    return text


def expand(scopes: Iterable[str], groups: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The scopes with each `VERB:@GROUP` written out as the clusters of that group; an unknown group opens nothing."""
    found: set[str] = set()
    for scope in scopes:
        verb, at, group = scope.partition(":@")
        if at:
            found.update(f"{verb}:{cluster}" for cluster in groups.get(group, ()))
        else:
            found.add(scope)
    return frozenset(found)


def covers(wide: str, narrow: str) -> bool:
    """True if everything that scope `narrow` opens, scope `wide` opens too."""
    if wide in ("admin", narrow):
        return True
    verb, _, pattern = wide.rpartition(":")
    other, _, asked = narrow.rpartition(":")
    if verb != other or not verb:
        return False
    if verb.startswith("job:"):
        return _REACHES[pattern] >= _REACHES[asked]
    if pattern.startswith("@") or asked.startswith("@"):
        return False  # groups are written out before they are compared
    return _pattern(pattern).fullmatch(asked) is not None


@functools.lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern over patterns: `*` absorbs anything, `?` any single sign but a `*`, which may stand for many."""
    return re.compile("".join({"*": ".*", "?": "[^*]"}.get(sign, re.escape(sign)) for sign in text))


def intersect(one: Iterable[str], other: Iterable[str]) -> frozenset[str]:
    """What both sets of scopes open; two patterns of which neither covers the other share nothing: less is safe."""
    found: set[str] = set()
    others = tuple(other)
    for scope in one:
        for bound in others:
            if covers(bound, scope):
                found.add(scope)
            elif covers(scope, bound):
                found.add(bound)
    return frozenset(found)
