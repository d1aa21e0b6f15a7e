"""The handler of rainbow.v2.Access."""

from __future__ import annotations

from rainbow_sched.model.credential import Credential
from rainbow_sched.pb.v2 import access_pb2 as pb
from rainbow_sched.pb.v2 import access_pb2_grpc
from rainbow_sched.server.admission.calls import Context
from rainbow_sched.server.admission.pipeline import caller
from rainbow_sched.server.codec import message_of
from rainbow_sched.service.access import accounts, renewal
from rainbow_sched.service.core import Core


class AccessHandler(access_pb2_grpc.AccessServicer):
    """Users, groups, tokens and the audit log."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        by = caller()
        return pb.WhoAmIResponse(
            name=by.name,
            kind=by.kind.value if by.kind else "",
            scopes=sorted(by.scopes),
            groups=sorted(by.groups),
            token=by.credential,
            expires_at=by.until,
        )

    async def PutUser(self, request: pb.PutUserRequest, context: Context) -> pb.User:
        account = await accounts.put_user(
            self._core,
            request.name,
            groups=request.groups.names if request.HasField("groups") else None,
            rights=request.rights.names if request.HasField("rights") else None,
            disabled=request.disabled if request.HasField("disabled") else None,
            create=request.create,
        )
        return message_of(pb.User, account)

    async def ListUsers(self, request: pb.ListUsersRequest, context: Context) -> pb.ListUsersResponse:
        return pb.ListUsersResponse(
            users=[message_of(pb.User, account) for account in await accounts.users(self._core)]
        )

    async def PutGroup(self, request: pb.PutGroupRequest, context: Context) -> pb.Group:
        group, users = await accounts.put_group(
            self._core,
            request.name,
            clusters=request.clusters.names if request.HasField("clusters") else None,
            rights=request.rights.names if request.HasField("rights") else None,
            create=request.create,
        )
        return message_of(pb.Group, group, users=users)

    async def ListGroups(self, request: pb.ListGroupsRequest, context: Context) -> pb.ListGroupsResponse:
        found = await accounts.groups(self._core)
        return pb.ListGroupsResponse(groups=[message_of(pb.Group, group, users=users) for group, users in found])

    async def CreateToken(self, request: pb.CreateTokenRequest, context: Context) -> pb.CreateTokenResponse:
        text, made = await accounts.create_token(
            self._core,
            caller(),
            owner=request.owner,
            scopes=request.scopes,
            ttl=request.ttl,
            note=request.note,
            join=request.join,
        )
        return pb.CreateTokenResponse(token=token_out(made), text=text)

    async def ListTokens(self, request: pb.ListTokensRequest, context: Context) -> pb.ListTokensResponse:
        found = await accounts.tokens(self._core, caller(), request.owner, everybody=request.all, dead=request.dead)
        return pb.ListTokensResponse(tokens=[token_out(one) for one in found])

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> pb.RevokeTokenResponse:
        await accounts.revoke(self._core, caller(), request.id)
        return pb.RevokeTokenResponse()

    async def RotateToken(self, request: pb.RotateTokenRequest, context: Context) -> pb.CreateTokenResponse:
        text, made = await accounts.rotate(self._core, caller(), request.id, request.grace)
        return pb.CreateTokenResponse(token=token_out(made), text=text)

    async def AskRenewal(self, request: pb.AskRenewalRequest, context: Context) -> pb.AskRenewalResponse:
        await renewal.ask(self._core, request.cluster)
        return pb.AskRenewalResponse()

    async def ReadAudit(self, request: pb.ReadAuditRequest, context: Context) -> pb.ReadAuditResponse:
        filters = ("actor", "verb", "object", "outcome", "address")
        page = await accounts.read_audit(
            self._core,
            after=request.after,
            limit=request.limit,
            verify=request.verify,
            newest=request.newest,
            equal={name: value for name in filters if (value := getattr(request, name))},
        )
        return pb.ReadAuditResponse(
            lines=[message_of(pb.AuditLine, row, digest=row.digest.hex()) for row in page.lines],
            next=page.lines[-1].seq if page.more else 0,
            count=page.count,
            verified=page.verified,
            broken_at=page.broken_at,
        )


def token_out(stored: Credential) -> pb.Token:
    """Convert the stored data of a token, which do not include its text."""
    return message_of(pb.Token, stored, expires_at=stored.until)
