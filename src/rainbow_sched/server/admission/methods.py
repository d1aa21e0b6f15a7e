"""How the gate treats each RPC: its row of the policy, how large its messages may be, how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rainbow_sched.model.errors import Invalid
from rainbow_sched.server.admission.policy import (
    BULKY,
    POLICY,
    RENEWALS,
    SUBMISSIONS,
    UPLOADS,
    InMessage,
    Nobody,
    Row,
    Scoped,
)

LARGE = 4 * 1024 * 1024  # bytes of an ordinary message
LARGEST = 64 * 1024 * 1024  # of one that carries a graph, a batch, or an agent's output
UNREADABLE = object()  # stands for a message that is none, or too large for its call


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One RPC and how the gate treats it."""

    path: str
    row: Row
    submission: bool
    stays: bool  # open until there is news
    uploads: bool  # one message carries a graph: it may take as long as an upload
    largest: int = LARGE  # bytes of one message

    @staticmethod
    def of(path: str, *, takes_stream: bool = False, gives_stream: bool = False) -> Method:
        """The treatment of a method by its path."""
        return Method(
            path=path,
            row=POLICY.get(path, Nobody()),
            submission=path in SUBMISSIONS,
            stays=takes_stream or gives_stream or path in RENEWALS,
            uploads=path in UPLOADS,
            largest=LARGEST if takes_stream or path in BULKY else LARGE,
        )

    def object(self, message: Any) -> str:
        """The name that the call is about, if it is about one."""
        if isinstance(self.row, Scoped | InMessage) and message not in (None, UNREADABLE):
            return self.row.named(message)
        return ""

    def reader(self, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Reads a message; what is none, or too large for its call, becomes `UNREADABLE` instead of a fault."""

        def reading(data: bytes) -> Any:
            if len(data) > self.largest:
                return UNREADABLE
            try:
                return read(data)
            except Exception:  # whatever protobuf raises on bytes that are no message
                return UNREADABLE

        return reading

    def check(self, message: Any) -> None:
        """Refuse one that could not be read."""
        if message is UNREADABLE:
            raise Invalid(
                f"the message cannot be read: it is no message of this call, or has over {self.largest} bytes"
            )
