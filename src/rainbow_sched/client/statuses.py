"""Convert the status of a failed gRPC call to one of Rainbow's errors.

The server names the class in the trailing metadata `rainbow-error`. A status without it comes from gRPC itself, or
from a proxy, and is converted by its code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import grpc

from rainbow_sched.model import errors
from rainbow_sched.model.errors import Exhausted, RainbowError

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

BY_NAME: Mapping[str, type[RainbowError]] = {
    cls.__name__: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, RainbowError)
}
BY_CODE: Mapping[grpc.StatusCode, type[RainbowError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.Invalid,
    grpc.StatusCode.OUT_OF_RANGE: errors.Invalid,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.ALREADY_EXISTS: errors.AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: errors.Conflict,
    grpc.StatusCode.ABORTED: errors.Conflict,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: errors.Denied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: errors.Unsupported,
    grpc.StatusCode.DATA_LOSS: errors.Corrupt,
}


def error_of_call(error: grpc.aio.AioRpcError, *, server: str = "") -> RainbowError:
    """Return the error that a failed call stands for, with the server's own text."""
    trailing = cast(Metadata, error.trailing_metadata() or ())  # the stubs are outdated: it yields pairs
    trailers = {key: value if isinstance(value, str) else value.decode("utf-8", "replace") for key, value in trailing}
    code, details = error.code(), error.details() or ""
    cls = BY_NAME.get(trailers.get("rainbow-error", ""))
    if cls is None:
        cls, details = BY_CODE.get(code, RainbowError), _grpc_message(code, details, server)
    if issubclass(cls, Exhausted):
        return Exhausted(details, retry_after=_seconds(trailers.get("retry-after", "")))
    return cls(details)


def _grpc_message(code: grpc.StatusCode, details: str, server: str) -> str:
    """Return a message for users in place of gRPC's own."""
    where = f" at {server}" if server else ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"no Rainbow server answers{where} ({details}); start one with `rainbow server` or give --server"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the server{where} did not answer in time; try again, or check its load"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"the server{where} does not know this call; is it a Rainbow server of this version? ({details})"
    return details or f"the call failed with {code.name}"


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 1.0
