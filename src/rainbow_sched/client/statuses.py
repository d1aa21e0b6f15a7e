"""What a gRPC status means: the one place where a failed call becomes one of Rainbow's own errors.

The server names the class in the trailing metadata `rainbow-error`. Statuses without it come
from gRPC itself, or from something between here and the server, and are read by their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import grpc

from rainbow_sched.model import errors
from rainbow_sched.model.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    Denied,
    Exhausted,
    Invalid,
    NotFound,
    RainbowError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

BY_NAME: Mapping[str, type[RainbowError]] = {
    cls.__name__: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, RainbowError)
}
BY_CODE: Mapping[grpc.StatusCode, type[RainbowError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.OUT_OF_RANGE: Invalid,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
    grpc.StatusCode.DATA_LOSS: Corrupt,
}


def error_of(code: grpc.StatusCode, details: str, trailing: Metadata = (), *, server: str = "") -> RainbowError:
    """The error that a failed call stands for, with the server's own words."""
    trailers = {key: value if isinstance(value, str) else value.decode("utf-8", "replace") for key, value in trailing}
    cls = BY_NAME.get(trailers.get("rainbow-error", ""))
    if cls is None:
        cls, details = BY_CODE.get(code, RainbowError), _foreign(code, details, server)
    if issubclass(cls, Exhausted):
        return Exhausted(details, retry_after=_seconds(trailers.get("retry-after", "")))
    return cls(details)


def error_of_call(error: grpc.aio.AioRpcError, *, server: str = "") -> RainbowError:
    """The same for a failed call of grpc.aio."""
    trailing = cast(Metadata, error.trailing_metadata() or ())  # the stubs lag behind: it yields pairs
    return error_of(error.code(), error.details() or "", trailing, server=server)


def _foreign(code: grpc.StatusCode, details: str, server: str) -> str:
    """gRPC's own words are for programmers; say what they mean to the person who typed the command."""
    where = f" at {server}" if server else ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"no Rainbow server answers{where} ({details}); start one with `rainbow server` or give --server"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the server{where} did not answer in time; try again, or look at its load"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"the server{where} does not know this call; is it a Rainbow server of this version? ({details})"
    return details or f"the call failed with {code.name}"


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 1.0
