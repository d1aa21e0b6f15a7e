"""The handler of rainbow.v2.Access."""

from __future__ import annotations

from rainbow_sched.model.credential import Credential
from rainbow_sched.pb.v2 import access_pb2, access_pb2_grpc
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.service.access import accounts, renewal
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Account, AuditRow


class AccessHandler(access_pb2_grpc.AccessServicer):
    """Users, groups, tokens and the audit log."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def WhoAmI(self, request: access_pb2.WhoAmIRequest, context: Context) -> access_pb2.WhoAmIResponse:
        by = caller()
        return access_pb2.WhoAmIResponse(
            name=by.name,
            kind=by.kind.value if by.kind else "",
            scopes=sorted(by.scopes),
            groups=sorted(by.groups),
            token=by.credential,
            expires_at=by.until,
        )

    async def PutUser(self, request: access_pb2.PutUserRequest, context: Context) -> access_pb2.User:
        return user_out(
            await accounts.put_user(
                self._core,
                request.name,
                groups=request.groups.names if request.HasField("groups") else None,
                rights=request.rights.names if request.HasField("rights") else None,
                disabled=request.disabled if request.HasField("disabled") else None,
                create=request.create,
            )
        )

    async def ListUsers(self, request: access_pb2.ListUsersRequest, context: Context) -> access_pb2.ListUsersResponse:
        return access_pb2.ListUsersResponse(users=[user_out(account) for account in await accounts.users(self._core)])

    async def PutGroup(self, request: access_pb2.PutGroupRequest, context: Context) -> access_pb2.Group:
        return group_out(
            await accounts.put_group(
                self._core,
                request.name,
                clusters=request.clusters.names if request.HasField("clusters") else None,
                rights=request.rights.names if request.HasField("rights") else None,
                create=request.create,
            )
        )

    async def ListGroups(
        self, request: access_pb2.ListGroupsRequest, context: Context
    ) -> access_pb2.ListGroupsResponse:
        return access_pb2.ListGroupsResponse(groups=[group_out(view) for view in await accounts.groups(self._core)])

    async def CreateToken(
        self, request: access_pb2.CreateTokenRequest, context: Context
    ) -> access_pb2.CreateTokenResponse:
        text, made = await accounts.create_token(
            self._core,
            caller(),
            owner=request.owner,
            scopes=request.scopes,
            ttl=request.ttl,
            note=request.note,
            join=request.join,
        )
        return access_pb2.CreateTokenResponse(token=token_out(made), text=text)

    async def ListTokens(
        self, request: access_pb2.ListTokensRequest, context: Context
    ) -> access_pb2.ListTokensResponse:
        found = await accounts.tokens(self._core, caller(), request.owner, everybody=request.all, dead=request.dead)
        return access_pb2.ListTokensResponse(tokens=[token_out(one) for one in found])

    async def RevokeToken(
        self, request: access_pb2.RevokeTokenRequest, context: Context
    ) -> access_pb2.RevokeTokenResponse:
        await accounts.revoke(self._core, caller(), request.id)
        return access_pb2.RevokeTokenResponse()

    async def RotateToken(
        self, request: access_pb2.RotateTokenRequest, context: Context
    ) -> access_pb2.CreateTokenResponse:
        text, made = await accounts.rotate(self._core, caller(), request.id, request.grace)
        return access_pb2.CreateTokenResponse(token=token_out(made), text=text)

    async def AskRenewal(
        self, request: access_pb2.AskRenewalRequest, context: Context
    ) -> access_pb2.AskRenewalResponse:
        await renewal.ask(self._core, request.cluster)
        return access_pb2.AskRenewalResponse()

    async def ReadAudit(self, request: access_pb2.ReadAuditRequest, context: Context) -> access_pb2.ReadAuditResponse:
        filters = ("actor", "verb", "object", "outcome", "address")
        page = await accounts.read_audit(
            self._core,
            after=request.after,
            limit=request.limit,
            verify=request.verify,
            newest=request.newest,
            equal={name: value for name in filters if (value := getattr(request, name))},
        )
        return access_pb2.ReadAuditResponse(
            lines=[line_out(row) for row in page.lines],
            next=page.lines[-1].seq if page.more else 0,
            count=page.count,
            verified=page.verified,
            broken_at=page.broken_at,
        )


def user_out(account: Account) -> access_pb2.User:
    return access_pb2.User(
        name=account.name,
        groups=account.groups,
        rights=account.rights,
        disabled=account.disabled,
        created_at=account.created_at,
    )


def group_out(view: accounts.GroupRights) -> access_pb2.Group:
    return access_pb2.Group(name=view.name, clusters=view.clusters, rights=view.rights, users=view.users)


def token_out(stored: Credential) -> access_pb2.Token:
    """Convert the stored data of a token, which do not include its text."""
    return access_pb2.Token(
        id=stored.id,
        kind=stored.kind.value,
        owner=stored.owner,
        scopes=stored.scopes,
        created_at=stored.created_at,
        expires_at=stored.until,
        revoked_at=stored.revoked_at,
        used_at=stored.used_at,
        uses_left=stored.uses_left,
        note=stored.note,
    )


def line_out(row: AuditRow) -> access_pb2.AuditLine:
    return access_pb2.AuditLine(
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        credential=row.credential,
        address=row.address,
        verb=row.verb,
        object=row.object,
        outcome=row.outcome,
        detail=row.detail,
        digest=row.digest.hex(),
    )
