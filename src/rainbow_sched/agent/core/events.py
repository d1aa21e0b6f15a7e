"""What can happen to an agent (events) and what it may want done (commands): the reactor's whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from rainbow_sched.agent.core.values import (
    ANY_HOST,
    Absent,
    AllowedHosts,
    BidAnswer,
    Chunk,
    Facts,
    Found,
    Offer,
    Ref,
    Result,
    Unknown,
    Update,
)

# --- the messages of the Sync call, free of protobuf ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """News of one attempt. With a result it is the last word, repeated until the server has stored it."""

    ref: Ref
    state: str
    native: str = ""
    started_at: float | None = None
    nodes: str = ""  # hostlist
    result: Result | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAttempt:
    """What this agent knows of one attempt: its phase, and its last report or its offer."""

    ref: Ref
    phase: str  # accepted, confirmed, ended, never
    report: Report | None = None
    offer: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Everything that this agent knows of its attempts."""

    attempts: tuple[KnownAttempt, ...]
    complete: bool  # False: attempts that ended before the oldest of these are forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncMessage:
    """Heartbeat, inventory and mailbox in one. The same `seq` is the same message sent again."""

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
    facts: Facts | None = None
    mark: str = ""  # the last one that a server gave
    recall: Recall | None = None

    @property
    def news(self) -> bool:
        """True if it says anything beyond "I am here"."""
        said = self.reports or self.accepts or self.rejects or self.acks or self.bids or self.output
        return bool(said) or self.facts is not None

    def at_once(self) -> SyncMessage:
        """The same message, asking for an answer without waiting."""
        return replace(self, wait=0.0)


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The server wants an attempt ended; repeated by it until acknowledged."""

    id: int
    kind: str  # cancel, kill
    ref: Ref
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BidRequest:
    """Would you run this?"""

    id: str
    spec: str
    deadline: float  # seconds from now
    allowed: AllowedHosts = ANY_HOST
    unreadable: str = ""  # why the question cannot be understood


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """What the server says to one message."""

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
    unknown: tuple[Ref, ...] = ()  # whose report this server does not understand
    server: str = ""  # which process of the server answered; empty: it does not say
    mark: str = ""  # how far its database has come, sealed by the server
    recall: bool = False  # its database is an older copy: tell everything; nothing of the message was taken

    @property
    def empty(self) -> bool:
        """True if there is nothing in it to act upon."""
        return not (self.confirms or self.offers or self.commands or self.bid_requests or self.resync)


# --- events ---


@dataclass(frozen=True, slots=True)
class Started:
    """The process has read its journal and begins; `contact_at`: when the server last heard of it, if that is known."""

    contact_at: float | None = None


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    """An answer came."""

    answer: SyncAnswer


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """No answer came to message `seq`; it may or may not have arrived. Send it again in `retry_in` seconds."""

    seq: int
    retry_in: float


@dataclass(frozen=True, slots=True)
class Judged:
    """An offer was held against the site's rules and the backend's abilities; `reason` says why not."""

    offer: Offer
    reason: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record is on disk."""

    ref: Ref
    kind: str  # offer, intent, end, cancel, absent, adopt


@dataclass(frozen=True, slots=True)
class SubmitAnswered:
    """The manager took the job under this id."""

    ref: Ref
    native: str


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """The manager certainly did not take it, and would not later."""

    ref: Ref
    result: Result


@dataclass(frozen=True, slots=True)
class SubmitUnclear:
    """The submission failed in a way that leaves open whether the manager has it."""

    ref: Ref
    reason: str


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The manager was asked for a tag."""

    ref: Ref
    answer: Found | Absent | Unknown


@dataclass(frozen=True, slots=True)
class BackendUpdated:
    """One query of the manager for all jobs succeeded."""

    updates: tuple[Update, ...]
    facts: Facts | None = None


@dataclass(frozen=True, slots=True)
class GraphReplaced:
    """The server has another graph of this cluster now; what it was told of the old one's nodes is forgotten there."""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """Bytes of a job's output, from the offset that was asked for; none: there are no more."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class OutputUnread:
    """A piece of output cannot be read now."""

    ref: Ref
    stream: str


@dataclass(frozen=True, slots=True)
class BidReady:
    """The backend answered a request for a bid."""

    id: str
    answer: BidAnswer


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Take no more work; what runs goes on running."""


Event: TypeAlias = (
    Started
    | SyncAnswered
    | SyncFailed
    | Judged
    | Stored
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
    """Send this message. A call still open for the same `seq` is given up for it; one for an older `seq` stays open."""

    message: SyncMessage


@dataclass(frozen=True, slots=True)
class WriteJournal:
    """Write a record; answer with `Stored` once it is safe on disk."""

    ref: Ref
    kind: str
    record: dict[str, object]


@dataclass(frozen=True, slots=True)
class Judge:
    """May this offer be taken? Answer with `Judged`."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Submit:
    """Hand it to the manager under its tag."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask the manager for the tag; answer with `LookedUp`."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Cancel:
    """End it. Harmless when there is nothing to end."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read a piece of output; answer with `OutputRead` or `OutputUnread`."""

    ref: Ref
    stream: str
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class AskBid:
    """Ask the backend for a bid; answer with `BidReady`."""

    request: BidRequest


@dataclass(frozen=True, slots=True)
class Forget:
    """The server has everything of this attempt: its traces may go."""

    ref: Ref


Command: TypeAlias = SendSync | WriteJournal | Judge | Submit | Lookup | Cancel | ReadOutput | AskBid | Forget
