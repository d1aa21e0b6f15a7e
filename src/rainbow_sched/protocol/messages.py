"""Messages between agent and server as plain values, free of protobuf; `docs/protocol.md` says what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts, NodeRules

STREAMS = ("stdout", "stderr")
MAX_ENTRIES = 20_000  # attempts in one Sync; the server refuses more, and ignores further attempts that are only held
MAX_SECONDS = 1e12  # upper bound for durations in messages and in a job's terms
GUARD_SHARE = 2 / 3  # share of the server's patience after which a job is ended here; the rest is for ending it


@dataclass(frozen=True, slots=True, order=True)
class AttemptRef:
    """Key of an attempt in every message: job, number and fencing token."""

    job: int
    n: int
    token: str

    @property
    def tag(self) -> str:
        """Return the name of the attempt in the manager."""
        return f"rb-{self.job}-{self.n}"


# --- offers ---


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts on which a job may run, by group, as computed by the server from the cluster's graph."""

    groups: tuple[GroupHosts, ...] = ()
    checked: bool = False  # False: the server is too old to compute them

    def of(self, group: int) -> tuple[str, ...]:
        """Return the hosts on which a group may run; empty: all hosts."""
        return next((one.hosts for one in self.groups if one.group == group), ())

    def mismatch(self, groups: int) -> str | None:
        """Return why these hosts do not match a request with this number of groups, or None."""
        named = [one.group for one in self.groups]
        if len(set(named)) == len(named) and all(group < groups for group in named):
            return None
        return f"the allowed hosts are for the groups {named}, but the request has {groups}; upgrade the server"


ANY_HOST = AllowedHosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An attempt offered by the server."""

    ref: AttemptRef
    name: str = ""
    owner: str = ""
    spec: str = ""  # the request as canonical JSON; empty for an attempt adopted from the manager by its tag
    terms: str = "{}"  # JSON
    lease: float = 60.0  # seconds
    priority: int = 0
    array_index: int | None = None
    allowed: AllowedHosts = ANY_HOST
    unreadable: str = ""  # set by the codec: why the offer cannot be read

    def guard(self, longest: float) -> float | None:
        """Return the seconds without contact after which the job is ended here; None: it continues."""
        again, lost_after = _loss_terms(self.terms)
        if lost_after is not None:
            return min(longest, lost_after * GUARD_SHARE)
        return longest if again else None


@lru_cache(maxsize=4096)
def _loss_terms(terms: str) -> tuple[bool, float | None]:
    """Return from a job's terms whether it may run again, and its own patience in seconds, if any."""
    values = parsed_terms(terms)
    lost_after = values.get("lost_after")
    known = isinstance(lost_after, int | float) and 0 < lost_after <= MAX_SECONDS
    return values.get("delivery") == "at-least-once", lost_after if known else None


def parsed_terms(terms: str) -> dict[str, Any]:
    """Return a job's terms; empty if they cannot be read."""
    try:
        values = json.loads(terms)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


# --- bids ---


@dataclass(frozen=True, slots=True)
class BidRequest:
    """A request to estimate start and cost of a job."""

    id: str
    spec: str
    deadline: float  # seconds from now
    allowed: AllowedHosts = ANY_HOST
    unreadable: str = ""  # set by the codec: why the request cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BidAnswer:
    """A bid as its agent sends it: whether the job can run, when it would start, and its cost. `Bid` checks it."""

    yes: bool
    reason: str = ""
    start_p50: float | None = None  # seconds from now
    start_p90: float | None = None
    runtime_factor: float = 1.0
    cost: float | None = None
    valid_for: float = 30.0  # seconds


# --- what an agent reports ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The state of one attempt. The report of an end is repeated until the server has stored it."""

    ref: AttemptRef
    state: AttemptState
    exit_code: int | None = None  # 128 + n for signal n
    failure: Failure | None = None
    reason: str = ""
    native_id: str = ""  # the manager's job id
    started_at: float | None = None  # seconds since the epoch
    ended_at: float | None = None
    nodes: str = ""  # hostlist
    code: str = ""  # typed reason of a return

    @property
    def ends(self) -> bool:
        """Return True for the report of an end."""
        return self.state not in LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownReport:
    """A report that this server does not understand. It is stored as text and changes nothing."""

    ref: AttemptRef
    text: str  # the report as JSON
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledOffer:
    """The job of an attempt, as its agent remembers the offer."""

    name: str
    owner: str
    spec: str
    terms: str  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAttempt:
    """An agent's record of one attempt: its phase, with its last report or its offer."""

    ref: AttemptRef
    phase: str  # accepted (not confirmed), confirmed (may be submitted), ended, never (not taken)
    report: Report | UnknownReport | None = None  # an UnknownReport is made by the codec
    offer: RecalledOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """All attempts in an agent's journal, sent to a server whose database was restored."""

    attempts: tuple[KnownAttempt, ...]
    complete: bool  # False: the agent has dropped its oldest finished attempts


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of a job's output."""

    ref: AttemptRef
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFacts:
    """State of the cluster as its manager reports it. A report without any values is no report."""

    state: Mapping[str, object] | None = None  # None: not reported, or unreadable
    marks: Mapping[str, str] = field(default_factory=dict)  # vertex id or name -> up | down | drained
    used: Mapping[str, int] | None = None  # vertex id -> units used by other users; None: not known


# --- the Sync call ---


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncMessage:
    """The content of one Sync: heartbeat, held attempts and mailbox. A retry has the same `seq`."""

    seq: int
    held: tuple[tuple[AttemptRef, str], ...] = ()
    reports: tuple[Report, ...] = ()
    unknown: tuple[UnknownReport, ...] = ()  # set by the codec: reports that this server does not understand
    accepts: tuple[AttemptRef, ...] = ()
    rejects: tuple[tuple[AttemptRef, str], ...] = ()
    acks: tuple[int, ...] = ()  # commands that were carried out
    bids: tuple[tuple[str, BidAnswer], ...] = ()
    output: tuple[OutputPiece, ...] = ()
    want: int = 0  # offers
    wait: float = 0.0  # seconds
    facts: ReportedFacts | None = None
    mark: str = ""  # the last mark received from a server
    recall: Recall | None = None

    @property
    def news(self) -> bool:
        """Return True if the message has more than a heartbeat."""
        content = self.reports or self.accepts or self.rejects or self.acks or self.bids or self.output
        return bool(content) or self.facts is not None

    @property
    def must_be_stored(self) -> bool:
        """Return True if the server must store anything of the message; bids and held attempts need not be."""
        content = self.reports or self.unknown or self.accepts or self.rejects or self.acks or self.output
        return bool(content) or self.facts is not None or self.recall is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """One Sync call: the message, and who sends it."""

    message: SyncMessage
    cluster: str
    epoch: str  # `<journal>.<process>` of the agent
    manager: str = ""
    version: str = ""  # of the agent
    accept_only: str = ""
    order_by: str = ""
    guards: bool = False  # runs end on the cluster when it loses contact, even without the agent
    node_rules: NodeRules | None = None  # None: the agent cannot bind jobs to hosts
    recalls: bool = False  # the agent can answer a recall


def journal_of(epoch: str) -> str:
    """Return the journal id in an agent's epoch; it survives restarts of the agent."""
    return epoch.partition(".")[0]


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The server's request to end an attempt, repeated until it is acknowledged."""

    id: int  # 0: it needs no acknowledgement
    kind: str  # cancel, kill
    ref: AttemptRef
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The server's answer to one message."""

    ack: int  # the `seq` of the message
    confirms: tuple[AttemptRef, ...] = ()
    offers: tuple[Offer, ...] = ()
    commands: tuple[ServerCommand, ...] = ()
    bid_requests: tuple[BidRequest, ...] = ()
    heartbeat: float = 25.0  # seconds
    resync: bool = False
    expected: tuple[AttemptRef, ...] = ()
    acked: tuple[AttemptRef, ...] = ()
    output_acks: tuple[tuple[AttemptRef, str, int], ...] = ()
    unknown: tuple[AttemptRef, ...] = ()  # the server stored the report as text and does not understand it
    renew: bool = False  # an administrator asks the agent for a new secret
    server: str = ""  # id of the server process; empty: an older server
    mark: str = ""  # sealed position in the server's event history
    recall: bool = False  # the database was restored: send all attempts; this message was not processed

    @property
    def empty(self) -> bool:
        """Return True if the answer requires no action."""
        return not (self.confirms or self.offers or self.commands or self.bid_requests or self.resync)
