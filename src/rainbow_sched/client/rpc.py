"""A call of the gRPC API: its path, its messages, the credential that it sends, and whether it may be retried."""

from __future__ import annotations

import enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar


class Message(Protocol):
    """The methods of a protobuf message that a call needs."""

    def SerializeToString(self) -> bytes: ...  # protobuf's name

    @classmethod
    def FromString(cls, data: bytes, /) -> Any: ...  # protobuf's name


RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class CallCredential(enum.Enum):
    """The credential that a call sends."""

    USER = "user"  # the bearer token, or else the clusters' submission tokens
    SUBMIT = "submit"  # the bearer token and the clusters' submission tokens
    CLUSTER = "cluster"  # the cluster's own secret, passed with the call
    REGISTRATION = "registration"


class Rpc(NamedTuple, Generic[RequestT, ResponseT]):
    """One call. An idempotent one has the same effect when it arrives twice, so it may be retried."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]
    credential: CallCredential = CallCredential.USER
    idempotent: bool = True
