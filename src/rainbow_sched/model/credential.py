"""Credentials, scopes and the names of callers.

A credential has the form `rbw_<kind>_<id>_<secret>`. Only its id and the SHA-256 of the whole text
are stored; a secret of 256 random bits needs no slow hash.
"""

from __future__ import annotations

import enum
import hashlib
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
    """Purpose of a credential. It is part of the credential's text, so that a leaked one can be recognised."""

    REGISTRATION = "reg"
    SUBMIT = "sub"
    AGENT = "agt"
    USER = "usr"
    ADMIN = "adm"
    JOIN = "join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One stored credential, without its secret."""

    id: str
    kind: CredentialKind
    digest: bytes
    owner: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    uses_left: int | None = None  # 1 for a join token
    note: str = ""
    ends_at: float | None = None  # set when a rotation replaced it
    replaces: str = ""  # id of the secret that an agent renewed with this one
    renewal_asked: bool = False  # the agent has to renew it

    def __post_init__(self) -> None:
        for scope in self.scopes:
            checked_scope(scope)

    def live(self, now: float) -> bool:
        """Return True if the credential is neither revoked, nor expired, nor used up."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at) and self.uses_left != 0

    @property
    def until(self) -> float | None:
        """Return when the credential expires or, if it was replaced, ends; None: never."""
        return min((time for time in (self.expires_at, self.ends_at) if time is not None), default=None)

    def usable(self, now: float) -> bool:
        """Return True if the credential is live and has not ended."""
        return self.live(now) and (self.ends_at is None or now < self.ends_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller and its permissions."""

    name: str  # user:ana, cluster:perl, admin:..., anonymous
    kind: CredentialKind | None = None  # None: anonymous
    credential: str = ""  # the id of the credential used
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    group_members: frozenset[str] = frozenset()  # users who share a group, if a scope covers their jobs
    until: float | None = None  # when the credential expires; None: never
    renew: bool = False  # the agent has to renew its secret

    @property
    def admin(self) -> bool:
        """Return True if the caller has all permissions."""
        return "admin" in self.scopes


def digest(secret: str) -> bytes:
    """Return the stored hash of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def compose(kind: CredentialKind, id: str, secret: str) -> str:
    """Return the text of a credential."""
    return f"rbw_{kind.value}_{id}_{secret}"


def id_of(text: str) -> str | None:
    """Return the id in a credential's text, or None if the text is not a credential."""
    match = _SHAPE.fullmatch(text)
    return match[2] if match else None


def checked_id(text: str) -> str:
    """Return `text` if it is a valid credential id; raise `Invalid`."""
    if not _ID.fullmatch(text):
        raise Invalid("the id of a credential has 12 lower-case letters and digits")
    return text


def checked_scope(text: str) -> str:
    """Return `text` if it is a scope; raise `Invalid`."""
    if not _SCOPE.fullmatch(text):
        raise Invalid(
            f"{text[:80]!r} is not a scope; write admin, submit:CLUSTER, submit:@GROUP, agent:CLUSTER, "
            "register:PATTERN, job:read:own|group|all or job:cancel:own|group|all"
        )
    return text


def user_name(text: str) -> str:
    """Return `text` if it is a valid name of a user or group; raise `Invalid`."""
    if not _USER.fullmatch(text) or text in _RESERVED:
        raise Invalid(
            f"{text[:40]!r} cannot be the name of a user or group: use 1 to 63 letters, digits, dots, dashes, "
            f"underscores or @, beginning with a letter or digit, and none of {', '.join(sorted(_RESERVED))}"
        )
    return text


def expand(scopes: Iterable[str], groups: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Replace each `VERB:@GROUP` by the clusters of that group; an unknown group grants nothing."""
    expanded: set[str] = set()
    for scope in scopes:
        verb, at, group = scope.partition(":@")
        if at:
            expanded.update(f"{verb}:{cluster}" for cluster in groups.get(group, ()))
        else:
            expanded.add(scope)
    return frozenset(expanded)


def covers(wide: str, narrow: str) -> bool:
    """Return True if scope `wide` grants everything that scope `narrow` grants."""
    if wide in ("admin", narrow):
        return True
    verb, _, pattern = wide.rpartition(":")
    other, _, target = narrow.rpartition(":")
    if verb != other or not verb:
        return False
    if verb.startswith("job:"):
        return _REACHES[pattern] >= _REACHES[target]
    if pattern.startswith("@") or target.startswith("@"):
        return False  # groups are expanded before they are compared
    wild = "*" in pattern or "?" in pattern
    return pattern == target or (wild and _pattern(pattern).fullmatch(target) is not None)


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern that matches patterns: `*` matches any text, `?` any character except `*`."""
    return re.compile("".join({"*": ".*", "?": "[^*]"}.get(char, re.escape(char)) for char in text))


def intersect(one: Iterable[str], other: Iterable[str]) -> frozenset[str]:
    """Return the scopes that both sets grant; two patterns share nothing unless one covers the other."""
    shared: set[str] = set()
    others = tuple(other)
    for scope in one:
        for bound in others:
            if covers(bound, scope):
                shared.add(scope)
            elif covers(scope, bound):
                shared.add(bound)
    return frozenset(shared)
