"""The server's answers about users, groups, tokens and the audit log."""

from __future__ import annotations

from dataclasses import dataclass, field

from rainbow_sched.client.views import ServerValue


@dataclass(frozen=True, slots=True)
class CallerInfo(ServerValue):
    """The caller as the server sees it."""

    name: str
    kind: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo(ServerValue):
    """A user; `rights` are the user's own, without those of the groups."""

    name: str
    groups: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    disabled: bool = False
    created_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo(ServerValue):
    """A group: the clusters of `@NAME`, and rights that its users have."""

    name: str
    clusters: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInfo(ServerValue):
    """A token as the server stores it, without its text."""

    id: str
    kind: str
    owner: str
    scopes: tuple[str, ...] = ()
    created_at: float | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    uses_left: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class NewToken(ServerValue):
    """A token and its text, which is shown only once."""

    token: TokenInfo
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine(ServerValue):
    """One line of the audit log."""

    seq: int
    at: float
    actor: str
    credential: str = ""
    address: str = ""
    verb: str = ""
    object: str = ""
    outcome: str = ""
    detail: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog(ServerValue):
    """Some lines of the audit log; pass `next` as `after` to read on, 0 at the end."""

    lines: tuple[AuditLine, ...]
    next: int = 0
    count: int = 0
    verified: bool = False
    broken_at: int = 0
