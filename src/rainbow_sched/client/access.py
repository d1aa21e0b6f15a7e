"""The calls of `rainbow.v2.Access`: users, groups, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rainbow_sched.client.connection import Connection, Rpc
from rainbow_sched.client.views import ServerValue, from_message, from_messages
from rainbow_sched.pb.v2 import access_pb2 as pb

WHO_AM_I = Rpc("Access/WhoAmI", pb.WhoAmIRequest, pb.WhoAmIResponse)
PUT_USER = Rpc("Access/PutUser", pb.PutUserRequest, pb.User, idempotent=False)
LIST_USERS = Rpc("Access/ListUsers", pb.ListUsersRequest, pb.ListUsersResponse)
PUT_GROUP = Rpc("Access/PutGroup", pb.PutGroupRequest, pb.Group, idempotent=False)
LIST_GROUPS = Rpc("Access/ListGroups", pb.ListGroupsRequest, pb.ListGroupsResponse)
CREATE_TOKEN = Rpc(  # the response holds a secret that is shown once
    "Access/CreateToken", pb.CreateTokenRequest, pb.CreateTokenResponse, idempotent=False
)
LIST_TOKENS = Rpc("Access/ListTokens", pb.ListTokensRequest, pb.ListTokensResponse)
REVOKE_TOKEN = Rpc("Access/RevokeToken", pb.RevokeTokenRequest, pb.RevokeTokenResponse, idempotent=False)
ROTATE_TOKEN = Rpc("Access/RotateToken", pb.RotateTokenRequest, pb.CreateTokenResponse, idempotent=False)
ASK_RENEWAL = Rpc("Access/AskRenewal", pb.AskRenewalRequest, pb.AskRenewalResponse)
READ_AUDIT = Rpc("Access/ReadAudit", pb.ReadAuditRequest, pb.ReadAuditResponse)


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


class AccessClient:
    """The calls of `rainbow.v2.Access`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def who_am_i(self) -> CallerInfo:
        """Return the caller as the server sees it."""
        return from_message(CallerInfo, await self.connection.call(WHO_AM_I, pb.WhoAmIRequest()))

    async def put_user(
        self,
        name: str,
        *,
        groups: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        disabled: bool | None = None,
        create: bool = False,
    ) -> UserInfo:
        """Add a user (`create`), or change an existing one; None leaves a value unchanged."""
        request = pb.PutUserRequest(
            name=name, groups=_names(groups), rights=_names(rights), disabled=disabled, create=create
        )
        return from_message(UserInfo, await self.connection.call(PUT_USER, request))

    async def users(self) -> tuple[UserInfo, ...]:
        """Return all users."""
        answer = await self.connection.call(LIST_USERS, pb.ListUsersRequest())
        return from_messages(UserInfo, answer.users)

    async def put_group(
        self,
        name: str,
        *,
        clusters: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        create: bool = False,
    ) -> GroupInfo:
        """Add a group (`create`), or change an existing one; None leaves a value unchanged."""
        request = pb.PutGroupRequest(name=name, clusters=_names(clusters), rights=_names(rights), create=create)
        return from_message(GroupInfo, await self.connection.call(PUT_GROUP, request))

    async def groups(self) -> tuple[GroupInfo, ...]:
        """Return all groups."""
        answer = await self.connection.call(LIST_GROUPS, pb.ListGroupsRequest())
        return from_messages(GroupInfo, answer.groups)

    async def create_token(
        self, *, owner: str = "", scopes: Sequence[str] = (), ttl: float = 0.0, note: str = "", join: bool = False
    ) -> NewToken:
        """Create a token for the caller, or for `owner`."""
        request = pb.CreateTokenRequest(owner=owner, scopes=scopes, ttl=ttl, note=note, join=join)
        return _new_token(await self.connection.call(CREATE_TOKEN, request))

    async def tokens(self, *, owner: str = "", everybody: bool = False, dead: bool = False) -> tuple[TokenInfo, ...]:
        """Return the tokens of the caller, of `owner`, or of everybody."""
        request = pb.ListTokensRequest(owner=owner, all=everybody, dead=dead)
        answer = await self.connection.call(LIST_TOKENS, request)
        return from_messages(TokenInfo, answer.tokens)

    async def revoke_token(self, id: str) -> None:
        """Revoke a token immediately."""
        await self.connection.call(REVOKE_TOKEN, pb.RevokeTokenRequest(id=id))

    async def rotate_token(self, id: str = "", *, grace: float = 0.0, bearer: str | None = None) -> NewToken:
        """Replace the secret of a token, by default of the caller's; the old one is valid for `grace` more seconds."""
        request = pb.RotateTokenRequest(id=id, grace=grace)
        return _new_token(await self.connection.call(ROTATE_TOKEN, request, bearer=bearer))

    async def ask_renewal(self, cluster: str) -> None:
        """Ask the agent of a cluster to renew its secret."""
        await self.connection.call(ASK_RENEWAL, pb.AskRenewalRequest(cluster=cluster))

    async def audit(
        self, /, *, after: int = 0, limit: int = 0, verify: bool = False, newest: bool = False, **equal: str
    ) -> AuditLog:
        """Return lines of the audit log; `equal` filters by actor, verb, object, outcome or address."""
        request = pb.ReadAuditRequest(after=after, limit=limit, verify=verify, newest=newest, **equal)
        answer = await self.connection.call(READ_AUDIT, request)
        return from_message(AuditLog, answer, lines=partial(from_messages, AuditLine))


def _names(names: Iterable[str] | None) -> pb.Names | None:
    return None if names is None else pb.Names(names=names)


def _new_token(message: pb.CreateTokenResponse) -> NewToken:
    return NewToken(from_message(TokenInfo, message.token), message.text)
