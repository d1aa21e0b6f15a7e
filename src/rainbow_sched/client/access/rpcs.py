"""The RPCs of `rainbow.v2.Access`."""

from __future__ import annotations

from rainbow_sched.client.rpc import Rpc
from rainbow_sched.pb.v2 import access_pb2

_ACCESS = "/rainbow.v2.Access/"
WHO_AM_I = Rpc(f"{_ACCESS}WhoAmI", access_pb2.WhoAmIRequest, access_pb2.WhoAmIResponse)
PUT_USER = Rpc(f"{_ACCESS}PutUser", access_pb2.PutUserRequest, access_pb2.User, idempotent=False)
LIST_USERS = Rpc(f"{_ACCESS}ListUsers", access_pb2.ListUsersRequest, access_pb2.ListUsersResponse)
PUT_GROUP = Rpc(f"{_ACCESS}PutGroup", access_pb2.PutGroupRequest, access_pb2.Group, idempotent=False)
LIST_GROUPS = Rpc(f"{_ACCESS}ListGroups", access_pb2.ListGroupsRequest, access_pb2.ListGroupsResponse)
CREATE_TOKEN = Rpc(  # the response holds a secret that is shown once
    f"{_ACCESS}CreateToken", access_pb2.CreateTokenRequest, access_pb2.CreateTokenResponse, idempotent=False
)
LIST_TOKENS = Rpc(f"{_ACCESS}ListTokens", access_pb2.ListTokensRequest, access_pb2.ListTokensResponse)
REVOKE_TOKEN = Rpc(
    f"{_ACCESS}RevokeToken", access_pb2.RevokeTokenRequest, access_pb2.RevokeTokenResponse, idempotent=False
)
ROTATE_TOKEN = Rpc(
    f"{_ACCESS}RotateToken", access_pb2.RotateTokenRequest, access_pb2.CreateTokenResponse, idempotent=False
)
ASK_RENEWAL = Rpc(f"{_ACCESS}AskRenewal", access_pb2.AskRenewalRequest, access_pb2.AskRenewalResponse)
READ_AUDIT = Rpc(f"{_ACCESS}ReadAudit", access_pb2.ReadAuditRequest, access_pb2.ReadAuditResponse)
