"""Settings of each RPC: access rule, size limit and time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rainbow_sched.model.errors import Invalid
from rainbow_sched.server.admission.policy import (
    BULKY,
    LONG_POLLS,
    POLICY,
    SUBMISSIONS,
    UPLOADS,
    AccessRule,
    Administrator,
    Caller,
    InMessage,
    LocalOrConfigured,
    Nobody,
    Request,
    Scoped,
    Submitter,
)

BEARER_RULES = (Caller, Submitter, Administrator, Scoped, LocalOrConfigured)
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_BULK_MESSAGE_BYTES = 64 * 1024 * 1024  # of a message that carries a graph, a batch, or an agent's output
Deserializer: TypeAlias = Callable[[bytes], object]
UNREADABLE = object()  # replaces a message that is invalid or too large


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """An RPC and its settings."""

    path: str
    row: AccessRule
    submission: bool
    stays: bool  # a stream or long poll
    takes_stream: bool
    gives_stream: bool
    bearer: bool  # a bearer token in the metadata is the only credential that it asks for
    uploads: bool  # the message carries a graph, so the time limit of uploads applies
    largest: int = MAX_MESSAGE_BYTES  # bytes of a message

    @staticmethod
    def of(path: str, *, takes_stream: bool = False, gives_stream: bool = False) -> Method:
        """Return the settings of a method by its path."""
        row = POLICY.get(path, Nobody())
        return Method(
            path=path,
            row=row,
            bearer=isinstance(row, BEARER_RULES),
            submission=path in SUBMISSIONS,
            stays=takes_stream or gives_stream or path in LONG_POLLS,
            takes_stream=takes_stream,
            gives_stream=gives_stream,
            uploads=path in UPLOADS,
            largest=MAX_BULK_MESSAGE_BYTES if takes_stream or path in BULKY else MAX_MESSAGE_BYTES,
        )

    def object(self, message: Request) -> str:
        """Return the name of the object that the call addresses, or ""."""
        if isinstance(self.row, Scoped | InMessage) and message not in (None, UNREADABLE):
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

    def check(self, message: Request) -> None:
        """Raise Invalid for a message that could not be read."""
        if message is UNREADABLE:
            raise Invalid(f"the message cannot be read: it is malformed or has over {self.largest} bytes")
