"""Map errors to gRPC statuses."""

from __future__ import annotations

import grpc

from rainbow_sched.model import errors

STATUSES: dict[type[errors.RainbowError], grpc.StatusCode] = {
    errors.TooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.Conflict: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Impossible: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Denied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Corrupt: grpc.StatusCode.DATA_LOSS,
    errors.Unsupported: grpc.StatusCode.UNIMPLEMENTED,
}


def status_of(error: errors.RainbowError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """Return code, message and trailing metadata of an error; a subclass maps like its base class."""
    for kind in type(error).__mro__:
        if kind in STATUSES:
            trailing = [("rainbow-error", kind.__name__)]
            if isinstance(error, errors.Exhausted):
                trailing.append(("retry-after", f"{error.retry_after:g}"))
            return STATUSES[kind], str(error)[:2048], tuple(trailing)
    return grpc.StatusCode.INVALID_ARGUMENT, str(error)[:2048], (("rainbow-error", "Invalid"),)
