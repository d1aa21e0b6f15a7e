"""Client methods for users, groups, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rainbow_sched.client.access import codec, rpcs
from rainbow_sched.client.access.views import AuditLog, CallerInfo, GroupInfo, NewToken, TokenInfo, UserInfo
from rainbow_sched.client.connection import Connection
from rainbow_sched.pb.v2 import access_pb2


class AccessClient:
    """The calls of `rainbow.v2.Access`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def who_am_i(self) -> CallerInfo:
        """Return the caller as the server sees it."""
        answer = await self.connection.call(rpcs.WHO_AM_I, access_pb2.WhoAmIRequest())
        return CallerInfo(answer.name, answer.kind, tuple(answer.scopes))

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
        request = access_pb2.PutUserRequest(
            name=name, groups=_names(groups), rights=_names(rights), disabled=disabled, create=create
        )
        return codec.user(await self.connection.call(rpcs.PUT_USER, request))

    async def users(self) -> tuple[UserInfo, ...]:
        """Return all users."""
        answer = await self.connection.call(rpcs.LIST_USERS, access_pb2.ListUsersRequest())
        return tuple(codec.user(one) for one in answer.users)

    async def put_group(
        self,
        name: str,
        *,
        clusters: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        create: bool = False,
    ) -> GroupInfo:
        """Add a group (`create`), or change an existing one; None leaves a value unchanged."""
        request = access_pb2.PutGroupRequest(name=name, clusters=_names(clusters), rights=_names(rights), create=create)
        return codec.group(await self.connection.call(rpcs.PUT_GROUP, request))

    async def groups(self) -> tuple[GroupInfo, ...]:
        """Return all groups."""
        answer = await self.connection.call(rpcs.LIST_GROUPS, access_pb2.ListGroupsRequest())
        return tuple(codec.group(one) for one in answer.groups)

    async def create_token(
        self, *, owner: str = "", scopes: Sequence[str] = (), ttl: float = 0.0, note: str = "", join: bool = False
    ) -> NewToken:
        """Create a token for the caller, or for `owner`."""
        request = access_pb2.CreateTokenRequest(owner=owner, scopes=scopes, ttl=ttl, note=note, join=join)
        answer = await self.connection.call(rpcs.CREATE_TOKEN, request)
        return NewToken(codec.token(answer.token), answer.text)

    async def tokens(self, *, owner: str = "", everybody: bool = False, dead: bool = False) -> tuple[TokenInfo, ...]:
        """Return the tokens of the caller, of `owner`, or of everybody."""
        request = access_pb2.ListTokensRequest(owner=owner, all=everybody, dead=dead)
        answer = await self.connection.call(rpcs.LIST_TOKENS, request)
        return tuple(codec.token(one) for one in answer.tokens)

    async def revoke_token(self, id: str) -> None:
        """Revoke a token immediately."""
        await self.connection.call(rpcs.REVOKE_TOKEN, access_pb2.RevokeTokenRequest(id=id))

    async def rotate_token(self, id: str = "", *, grace: float = 0.0, bearer: str | None = None) -> NewToken:
        """Replace the secret of a token, by default of the caller's; the old one is valid for `grace` more seconds."""
        request = access_pb2.RotateTokenRequest(id=id, grace=grace)
        answer = await self.connection.call(rpcs.ROTATE_TOKEN, request, bearer=bearer)
        return NewToken(codec.token(answer.token), answer.text)

    async def ask_renewal(self, cluster: str) -> None:
        """Ask the agent of a cluster to renew its secret."""
        await self.connection.call(rpcs.ASK_RENEWAL, access_pb2.AskRenewalRequest(cluster=cluster))

    async def audit(
        self, /, *, after: int = 0, limit: int = 0, verify: bool = False, newest: bool = False, **equal: str
    ) -> AuditLog:
        """Return lines of the audit log; `equal` filters by actor, verb, object, outcome or address."""
        request = access_pb2.ReadAuditRequest(after=after, limit=limit, verify=verify, newest=newest, **equal)
        return codec.audit_log(await self.connection.call(rpcs.READ_AUDIT, request))


def _names(names: Iterable[str] | None) -> access_pb2.Names | None:
    return None if names is None else access_pb2.Names(names=names)
