"""A call on its way through admission, the settings of its RPC, and the types that gRPC gives no names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
from grpc import aio

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Invalid
from rainbow_sched.server.admission.connections import address_of
from rainbow_sched.server.admission.policy import (
    BULKY,
    LONG_POLLS,
    POLICY,
    SUBMISSIONS,
    UPLOADS,
    Access,
    AccessRule,
    Request,
    Scoped,
)
from rainbow_sched.service.access.audit import ANONYMOUS

MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # gRPC's default; bounds the memory of one call
MAX_BULK_MESSAGE_BYTES = 64 * 1024 * 1024  # of a message that carries a graph, a batch, or an agent's output
UNREADABLE = object()  # replaces a message that is invalid or too large
_IN_METADATA = (Access.CALLER, Access.SUBMITTER, Access.ADMINISTRATOR)
Deserializer: TypeAlias = Callable[[bytes], object]
Response: TypeAlias = Any
Behaviour: TypeAlias = Callable[..., Any]  # of a handler: of four shapes, sync in the stubs and async in fact
if TYPE_CHECKING:  # the stubs make these generic, the classes themselves are not
    Context: TypeAlias = aio.ServicerContext[Request, Response]
    Handler: TypeAlias = grpc.RpcMethodHandler[Request, Response]
    GenericHandler: TypeAlias = grpc.GenericRpcHandler[Request, Response]
else:
    Context, Handler, GenericHandler = aio.ServicerContext, grpc.RpcMethodHandler, grpc.GenericRpcHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """An RPC and its settings."""

    path: str
    row: AccessRule
    submission: bool
    stays: bool  # a stream or long poll
    takes_stream: bool
    gives_stream: bool
    by_metadata: bool  # nothing in the message tells who calls
    bearer: bool  # a bearer token in the metadata is the only credential that it asks for
    uploads: bool  # the message carries a graph, so the time limit of uploads applies
    largest: int = MAX_MESSAGE_BYTES  # bytes of a message

    @staticmethod
    def of(path: str, *, takes_stream: bool = False, gives_stream: bool = False) -> Method:
        """Return the settings of a method by its path."""
        row = POLICY.get(path, Access.NOBODY)
        in_metadata = row in _IN_METADATA or (isinstance(row, Scoped) and row.secret is None)
        return Method(
            path=path,
            row=row,
            by_metadata=in_metadata or row is Access.NOBODY,
            bearer=in_metadata or row is Access.LOCAL_OR_CONFIGURED,
            submission=path in SUBMISSIONS,
            stays=takes_stream or gives_stream or path in LONG_POLLS,
            takes_stream=takes_stream,
            gives_stream=gives_stream,
            uploads=path in UPLOADS,
            largest=MAX_BULK_MESSAGE_BYTES if takes_stream or path in BULKY else MAX_MESSAGE_BYTES,
        )

    def object(self, message: Request) -> str:
        """Return the name of the object that the call addresses, or ""."""
        if isinstance(self.row, Scoped) and message not in (None, UNREADABLE):
            return self.row.named(message)
        return ""

    def reader(self, read: Deserializer | None) -> Deserializer:
        """Wrap a deserializer: return `UNREADABLE` for an invalid or too large message instead of raising."""

        def reading(data: bytes) -> object:
            if read is None or len(data) > self.largest:
                return UNREADABLE
            try:
                return read(data)
            except Exception:  # any error of protobuf
                return UNREADABLE

        return reading


@dataclass(slots=True)
class Call:
    """One call, and its caller as far as known."""

    method: Method
    context: Context
    peer: str
    address: str
    message: Request = None  # None: not read yet, or a stream
    principal: Principal = ANONYMOUS

    @staticmethod
    def of(method: Method, context: Context, message: Request = None) -> Call:
        """Return a call whose caller is unknown."""
        peer = context.peer()
        return Call(method, context, peer, address_of(peer), message)

    def anonymous(self) -> Call:
        """Return the same call, its caller unknown again."""
        return replace(self, principal=ANONYMOUS)

    def check_message(self) -> None:
        """Raise Invalid for a message that could not be read."""
        if self.message is UNREADABLE:
            raise Invalid(f"the message cannot be read: it is malformed or has over {self.method.largest} bytes")
