"""Messages of the Sync call, events that the reactor takes, and commands that it returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from rainbow_sched.agent.core.values import (
    ANY_HOST,
    Absent,
    AllowedHosts,
    BidAnswer,
    Chunk,
    ClusterFacts,
    JobFound,
    Offer,
    Ref,
    Result,
    Unknown,
    Update,
)

# --- the messages of the Sync call, free of protobuf ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A state change of one attempt. A report with a result is repeated until the server has stored it."""

    ref: Ref
    state: str
    native: str = ""
    started_at: float | None = None
    nodes: str = ""  # hostlist
    result: Result | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAttempt:
    """The agent's record of one attempt: its phase, with its last report or its offer."""

    ref: Ref
    phase: str  # accepted, confirmed, ended, never
    report: Report | None = None
    offer: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """All attempts in the agent's journal, sent to a server whose database was restored."""

    attempts: tuple[KnownAttempt, ...]
    complete: bool  # False: the agent has dropped its oldest finished attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncMessage:
    """One Sync request: heartbeat, held attempts and mailbox. A retry has the same `seq`."""

    seq: int
    held: tuple[tuple[Ref, str], ...] = ()
    reports: tuple[Report, ...] = ()
    accepts: tuple[Ref, ...] = ()
    rejects: tuple[tuple[Ref, str], ...] = ()
    acks: tuple[int, ...] = ()
    bids: tuple[tuple[str, BidAnswer], ...] = ()
    output: tuple[Chunk, ...] = ()
    want: int = 0
    wait: float = 0.0
    facts: ClusterFacts | None = None
    mark: str = ""  # the last mark received from a server
    recall: Recall | None = None

    @property
    def news(self) -> bool:
        """Return True if the message has more than a heartbeat."""
        content = self.reports or self.accepts or self.rejects or self.acks or self.bids or self.output
        return bool(content) or self.facts is not None

    def at_once(self) -> SyncMessage:
        """Return the same message without a wait for the answer."""
        return replace(self, wait=0.0)


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The server's request to end an attempt, repeated until it is acknowledged."""

    id: int
    kind: str  # cancel, kill
    ref: Ref
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BidRequest:
    """A request to estimate start and cost of a job."""

    id: str
    spec: str
    deadline: float  # seconds from now
    allowed: AllowedHosts = ANY_HOST
    unreadable: str = ""  # why the request cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The server's answer to one message."""

    ack: int
    confirms: tuple[Ref, ...] = ()
    offers: tuple[Offer, ...] = ()
    commands: tuple[ServerCommand, ...] = ()
    bid_requests: tuple[BidRequest, ...] = ()
    heartbeat: float = 25.0
    resync: bool = False
    expected: tuple[Ref, ...] = ()
    acked: tuple[Ref, ...] = ()
    output_acks: tuple[tuple[Ref, str, int], ...] = ()
    unknown: tuple[Ref, ...] = ()  # the server does not know the reported state
    server: str = ""  # id of the server process; empty: an older server
    mark: str = ""  # sealed position in the server's event history
    recall: bool = False  # the database was restored: send all attempts; this message was not processed

    @property
    def empty(self) -> bool:
        """Return True if the answer requires no action."""
        return not (self.confirms or self.offers or self.commands or self.bid_requests or self.resync)


# --- events ---


@dataclass(frozen=True, slots=True)
class Started:
    """The agent has read its journal. `contact_at`: time of the last contact with the server, if known."""

    contact_at: float | None = None


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    """The server answered a message."""

    answer: SyncAnswer


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """Message `seq` got no answer; it may have arrived. Resend it in `retry_in` seconds."""

    seq: int
    retry_in: float


@dataclass(frozen=True, slots=True)
class OfferChecked:
    """An offer was checked against site rules and backend; `reason`: why it is rejected, or None."""

    offer: Offer
    reason: str | None


@dataclass(frozen=True, slots=True)
class RecordStored:
    """A journal record is on disk."""

    ref: Ref
    kind: str  # offer, intent, end, cancel, absent, adopt


@dataclass(frozen=True, slots=True)
class SubmitAnswered:
    """The manager accepted the job under this id."""

    ref: Ref
    native: str


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """The manager rejected the job permanently."""

    ref: Ref
    result: Result


@dataclass(frozen=True, slots=True)
class SubmitUnclear:
    """The submission failed and may or may not have reached the manager."""

    ref: Ref
    reason: str


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The result of a lookup of a tag in the manager."""

    ref: Ref
    answer: JobFound | Absent | Unknown


@dataclass(frozen=True, slots=True)
class BackendUpdated:
    """The result of one poll of the manager."""

    updates: tuple[Update, ...]
    facts: ClusterFacts | None = None


@dataclass(frozen=True, slots=True)
class GraphReplaced:
    """The server has a new graph of this cluster and has dropped its node states: report them again."""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """Job output from the requested offset; empty at the end."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class OutputUnread:
    """A read of job output failed."""

    ref: Ref
    stream: str


@dataclass(frozen=True, slots=True)
class BidReady:
    """The backend's answer to a bid request."""

    id: str
    answer: BidAnswer


@dataclass(frozen=True, slots=True)
class Tick:
    """A timer has expired."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Take no new work and shut down; running jobs continue."""


Event: TypeAlias = (
    Started
    | SyncAnswered
    | SyncFailed
    | OfferChecked
    | RecordStored
    | SubmitAnswered
    | SubmitRefused
    | SubmitUnclear
    | LookedUp
    | BackendUpdated
    | GraphReplaced
    | OutputRead
    | OutputUnread
    | BidReady
    | Tick
    | StopAsked
)

# --- commands ---


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send this message. It replaces an open call with the same `seq`; calls with an older `seq` stay open."""

    message: SyncMessage


@dataclass(frozen=True, slots=True)
class WriteJournal:
    """Append a record to the journal; answered by `RecordStored` once it is on disk."""

    ref: Ref
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

    ref: Ref


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the job in the manager; a job that does not exist is no error."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read job output; answered by `OutputRead` or `OutputUnread`."""

    ref: Ref
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

    ref: Ref


Command: TypeAlias = SendSync | WriteJournal | CheckOffer | Submit | Lookup | Cancel | ReadOutput | AskBid | Forget
