"""Convert the messages of `rainbow.v2.Access` to the client's values."""

from __future__ import annotations

from rainbow_sched.client.access.views import AuditLine, AuditLog, GroupInfo, TokenInfo, UserInfo
from rainbow_sched.client.views import from_message
from rainbow_sched.pb.v2 import access_pb2


def user(message: access_pb2.User) -> UserInfo:
    return from_message(UserInfo, message, groups=tuple, rights=tuple)


def group(message: access_pb2.Group) -> GroupInfo:
    return from_message(GroupInfo, message, clusters=tuple, rights=tuple, users=tuple)


def token(message: access_pb2.Token) -> TokenInfo:
    return from_message(TokenInfo, message, scopes=tuple)


def audit_log(message: access_pb2.ReadAuditResponse) -> AuditLog:
    return from_message(AuditLog, message, lines=lambda lines: tuple(from_message(AuditLine, line) for line in lines))
