"""A call on its way through admission, and the types that gRPC gives no names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
from grpc import aio

from rainbow_sched.model.credential import Principal
from rainbow_sched.server.admission.connections import address_of
from rainbow_sched.server.admission.methods import Method
from rainbow_sched.server.admission.policy import Request
from rainbow_sched.service.access.audit import ANONYMOUS

Response: TypeAlias = Any
Behaviour: TypeAlias = Callable[..., Any]  # of a handler: of four shapes, sync in the stubs and async in fact
if TYPE_CHECKING:  # the stubs make these generic, the classes themselves are not
    Context: TypeAlias = aio.ServicerContext[Request, Response]
    Handler: TypeAlias = grpc.RpcMethodHandler[Request, Response]
    GenericHandler: TypeAlias = grpc.GenericRpcHandler[Request, Response]
else:
    Context, Handler, GenericHandler = aio.ServicerContext, grpc.RpcMethodHandler, grpc.GenericRpcHandler


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


def check_message(call: Call) -> None:
    """Raise Invalid for a message that is too large or malformed."""
    call.method.check(call.message)
