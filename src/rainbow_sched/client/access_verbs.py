"""What a client can do about access: users, groups, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rainbow_sched.client.connection import Connection
from rainbow_sched.client.rpcs import Rpc
from rainbow_sched.client.views import View
from rainbow_sched.pb.v2 import access_pb2

_AT = "/rainbow.v2.Access/"
PUT_USER = Rpc(path=f"{_AT}PutUser", asks=access_pb2.PutUserRequest, answers=access_pb2.User, twice=False)
LIST_USERS = Rpc(path=f"{_AT}ListUsers", asks=access_pb2.ListUsersRequest, answers=access_pb2.ListUsersResponse)
PUT_GROUP = Rpc(path=f"{_AT}PutGroup", asks=access_pb2.PutGroupRequest, answers=access_pb2.Group, twice=False)
LIST_GROUPS = Rpc(path=f"{_AT}ListGroups", asks=access_pb2.ListGroupsRequest, answers=access_pb2.ListGroupsResponse)
CREATE_TOKEN = Rpc(  # its answer holds a secret that is shown once
    path=f"{_AT}CreateToken", asks=access_pb2.CreateTokenRequest, answers=access_pb2.CreateTokenResponse, twice=False
)
LIST_TOKENS = Rpc(path=f"{_AT}ListTokens", asks=access_pb2.ListTokensRequest, answers=access_pb2.ListTokensResponse)
REVOKE_TOKEN = Rpc(
    path=f"{_AT}RevokeToken", asks=access_pb2.RevokeTokenRequest, answers=access_pb2.RevokeTokenResponse, twice=False
)
ROTATE_TOKEN = Rpc(
    path=f"{_AT}RotateToken", asks=access_pb2.RotateTokenRequest, answers=access_pb2.CreateTokenResponse, twice=False
)
ASK_RENEWAL = Rpc(path=f"{_AT}AskRenewal", asks=access_pb2.AskRenewalRequest, answers=access_pb2.AskRenewalResponse)
READ_AUDIT = Rpc(path=f"{_AT}ReadAudit", asks=access_pb2.ReadAuditRequest, answers=access_pb2.ReadAuditResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserView(View):
    """A user; `rights` are their own, without those of their groups."""

    name: str
    groups: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    disabled: bool = False
    created_at: float | None = None


@dataclass(frozen=True, slots=True)
class GroupView(View):
    """A group: clusters that `@NAME` stands for, rights that its users have."""

    name: str
    clusters: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView(View):
    """What the server keeps of a token; the text is not among it."""

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
class NewToken(View):
    """A token and its text, which is shown this once."""

    token: TokenView
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView(View):
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
class AuditPage(View):
    """Some lines; `next` asks for those that follow, 0 when there are none."""

    lines: tuple[AuditView, ...]
    next: int = 0
    count: int = 0
    verified: bool = False
    broken_at: int = 0


class AccessVerbs:
    """The calls of `rainbow.v2.Access`."""

    connection: Connection

    async def put_user(
        self,
        name: str,
        *,
        groups: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        disabled: bool | None = None,
        create: bool = False,
    ) -> UserView:
        """Add a user (`create`), or change what is given of one."""
        request = access_pb2.PutUserRequest(
            name=name, groups=_names(groups), rights=_names(rights), disabled=disabled, create=create
        )
        return _user(await self.connection.call(PUT_USER, request))

    async def users(self) -> tuple[UserView, ...]:
        """All users."""
        answer = await self.connection.call(LIST_USERS, access_pb2.ListUsersRequest())
        return tuple(_user(one) for one in answer.users)

    async def put_group(
        self,
        name: str,
        *,
        clusters: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        create: bool = False,
    ) -> GroupView:
        """Add a group (`create`), or change what is given of one."""
        request = access_pb2.PutGroupRequest(name=name, clusters=_names(clusters), rights=_names(rights), create=create)
        return _group(await self.connection.call(PUT_GROUP, request))

    async def groups(self) -> tuple[GroupView, ...]:
        """All groups."""
        answer = await self.connection.call(LIST_GROUPS, access_pb2.ListGroupsRequest())
        return tuple(_group(one) for one in answer.groups)

    async def create_token(
        self, *, owner: str = "", scopes: Sequence[str] = (), ttl: float = 0.0, note: str = "", join: bool = False
    ) -> NewToken:
        """A new token, for oneself unless `owner` is given."""
        request = access_pb2.CreateTokenRequest(owner=owner, scopes=scopes, ttl=ttl, note=note, join=join)
        answer = await self.connection.call(CREATE_TOKEN, request)
        return NewToken(_token(answer.token), answer.text)

    async def tokens(self, *, owner: str = "", everybody: bool = False, dead: bool = False) -> tuple[TokenView, ...]:
        """Tokens: one's own, those of `owner`, or everybody's."""
        request = access_pb2.ListTokensRequest(owner=owner, all=everybody, dead=dead)
        answer = await self.connection.call(LIST_TOKENS, request)
        return tuple(_token(one) for one in answer.tokens)

    async def revoke_token(self, id: str) -> None:
        """End a token now."""
        await self.connection.call(REVOKE_TOKEN, access_pb2.RevokeTokenRequest(id=id))

    async def rotate_token(self, id: str = "", *, grace: float = 0.0, bearer: str | None = None) -> NewToken:
        """A new secret in place of an old one, by default of the one that asks; both are good for `grace` seconds."""
        request = access_pb2.RotateTokenRequest(id=id, grace=grace)
        answer = await self.connection.call(ROTATE_TOKEN, request, bearer=bearer)
        return NewToken(_token(answer.token), answer.text)

    async def ask_renewal(self, cluster: str) -> None:
        """Have the agent of a cluster renew its secret."""
        await self.connection.call(ASK_RENEWAL, access_pb2.AskRenewalRequest(cluster=cluster))

    async def audit(
        self, /, *, after: int = 0, limit: int = 0, verify: bool = False, newest: bool = False, **equal: str
    ) -> AuditPage:
        """Lines of the audit log; `equal` narrows by actor, verb, object, outcome or address."""
        request = access_pb2.ReadAuditRequest(after=after, limit=limit, verify=verify, newest=newest, **equal)
        answer = await self.connection.call(READ_AUDIT, request)
        return AuditPage(
            lines=tuple(_line(one) for one in answer.lines),
            next=answer.next,
            count=answer.count,
            verified=answer.verified,
            broken_at=answer.broken_at,
        )


def _names(names: Iterable[str] | None) -> access_pb2.Names | None:
    return None if names is None else access_pb2.Names(names=names)


def _user(message: access_pb2.User) -> UserView:
    return UserView(
        name=message.name,
        groups=tuple(message.groups),
        rights=tuple(message.rights),
        disabled=message.disabled,
        created_at=message.created_at,
    )


def _group(message: access_pb2.Group) -> GroupView:
    return GroupView(message.name, tuple(message.clusters), tuple(message.rights), tuple(message.users))


def _token(message: access_pb2.Token) -> TokenView:
    return TokenView(
        id=message.id,
        kind=message.kind,
        owner=message.owner,
        scopes=tuple(message.scopes),
        created_at=message.created_at,
        expires_at=message.expires_at if message.HasField("expires_at") else None,
        revoked_at=message.revoked_at if message.HasField("revoked_at") else None,
        used_at=message.used_at if message.HasField("used_at") else None,
        uses_left=message.uses_left if message.HasField("uses_left") else None,
        note=message.note,
    )


def _line(message: access_pb2.AuditLine) -> AuditView:
    return AuditView(
        seq=message.seq,
        at=message.at,
        actor=message.actor,
        credential=message.credential,
        address=message.address,
        verb=message.verb,
        object=message.object,
        outcome=message.outcome,
        detail=message.detail,
        digest=message.digest,
    )
