"""Events that the reactor takes, and commands that it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Result, Unknown, Update
from rainbow_sched.protocol.messages import (
    AttemptRef,
    BidAnswer,
    BidRequest,
    Offer,
    OutputPiece,
    SyncAnswer,
    SyncMessage,
)

# --- events ---


class AgentEvent:
    """What the reactor takes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Started(AgentEvent):
    """The agent has read its journal. `contact_at`: time of the last contact with the server, if known."""

    contact_at: float | None = None


@dataclass(frozen=True, slots=True)
class SyncAnswered(AgentEvent):
    """The server answered a message."""

    answer: SyncAnswer


@dataclass(frozen=True, slots=True)
class SyncFailed(AgentEvent):
    """Message `seq` got no answer; it may have arrived. Resend it in `retry_in` seconds."""

    seq: int
    retry_in: float


@dataclass(frozen=True, slots=True)
class OfferChecked(AgentEvent):
    """An offer was checked against site rules and backend; `reason`: why it is rejected, or None."""

    offer: Offer
    reason: str | None


@dataclass(frozen=True, slots=True)
class RecordStored(AgentEvent):
    """A journal record is on disk."""

    ref: AttemptRef
    kind: str  # offer, intent, end, cancel, absent, adopt


@dataclass(frozen=True, slots=True)
class SubmitAnswered(AgentEvent):
    """The manager accepted the job under this id."""

    ref: AttemptRef
    native: str


@dataclass(frozen=True, slots=True)
class SubmitRefused(AgentEvent):
    """The manager rejected the job permanently."""

    ref: AttemptRef
    result: Result


@dataclass(frozen=True, slots=True)
class SubmitUnclear(AgentEvent):
    """The submission failed and may or may not have reached the manager."""

    ref: AttemptRef
    reason: str


@dataclass(frozen=True, slots=True)
class LookedUp(AgentEvent):
    """The result of a lookup of a tag in the manager."""

    ref: AttemptRef
    answer: JobFound | Absent | Unknown


@dataclass(frozen=True, slots=True)
class BackendUpdated(AgentEvent):
    """The result of one poll of the manager."""

    updates: tuple[Update, ...]
    facts: ClusterFacts | None = None


@dataclass(frozen=True, slots=True)
class GraphReplaced(AgentEvent):
    """The server has a new graph of this cluster and has dropped its node states: report them again."""


@dataclass(frozen=True, slots=True)
class OutputRead(AgentEvent):
    """Job output from the requested offset; empty at the end."""

    chunk: OutputPiece


@dataclass(frozen=True, slots=True)
class OutputUnread(AgentEvent):
    """A read of job output failed."""

    ref: AttemptRef
    stream: str


@dataclass(frozen=True, slots=True)
class BidReady(AgentEvent):
    """The backend's answer to a bid request."""

    id: str
    answer: BidAnswer


@dataclass(frozen=True, slots=True)
class Tick(AgentEvent):
    """A timer has expired."""


@dataclass(frozen=True, slots=True)
class StopAsked(AgentEvent):
    """Take no new work and shut down; running jobs continue."""


# --- commands ---


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send this message. It replaces an open call with the same `seq`; calls with an older `seq` stay open."""

    message: SyncMessage


@dataclass(frozen=True, slots=True)
class WriteJournal:
    """Append a record to the journal; answered by `RecordStored` once it is on disk."""

    ref: AttemptRef
    kind: str
    record: dict[str, object]


@dataclass(frozen=True, slots=True)
class CheckOffer:
    """Check whether this offer may be accepted; answered by `OfferChecked`."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit the job to the manager under its tag."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Lookup:
    """Look the tag up in the manager; answered by `LookedUp`."""

    ref: AttemptRef


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the job in the manager; a job that does not exist is no error."""

    ref: AttemptRef


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read job output; answered by `OutputRead` or `OutputUnread`."""

    ref: AttemptRef
    stream: str
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class AskBid:
    """Ask the backend for a bid; answered by `BidReady`."""

    request: BidRequest


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the files of an attempt that the server has stored completely."""

    ref: AttemptRef


Command: TypeAlias = SendSync | WriteJournal | CheckOffer | Submit | Lookup | Cancel | ReadOutput | AskBid | Forget
