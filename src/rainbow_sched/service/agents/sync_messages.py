"""Messages of one Sync as plain values; `server/handlers/agents.py` converts them from and to protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.job import Job
from rainbow_sched.store.base import Command


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """An attempt by job, number and fencing token."""

    job: int
    n: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """A report on one attempt."""

    ref: AttemptRef
    state: AttemptState
    exit_code: int | None = None
    failure: Failure | None = None
    reason: str = ""
    native_id: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    nodes: str = ""  # hostlist
    code: str = ""  # typed reason of a return


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownReport:
    """A report that this server does not understand. It is stored as text and changes nothing."""

    ref: AttemptRef
    text: str  # the report as JSON
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledOffer:
    """A job as it was offered to an agent, unchecked."""

    name: str
    owner: str
    spec: str
    terms: str  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledAttempt:
    """An agent's record of one attempt."""

    ref: AttemptRef
    phase: str  # accepted (not confirmed), confirmed (may be submitted), ended, never (not taken)
    report: AttemptReport | UnknownReport | None = None
    offer: RecalledOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReport:
    """All attempts that an agent has on record."""

    attempts: tuple[RecalledAttempt, ...]
    complete: bool  # False: older ended attempts were deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class BidReply:
    """An agent's bid, unchecked."""

    id: str
    yes: bool
    reason: str
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPiece:
    """A piece of a job's output."""

    ref: AttemptRef
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMessage:
    """A Sync message of an agent: heartbeat, inventory, reports, answers."""

    cluster: str
    epoch: str
    seq: int
    held: tuple[tuple[AttemptRef, str], ...] = ()
    reports: tuple[AttemptReport, ...] = ()
    unknown: tuple[UnknownReport, ...] = ()
    accepts: tuple[AttemptRef, ...] = ()
    rejects: tuple[tuple[AttemptRef, str], ...] = ()
    command_acks: tuple[int, ...] = ()
    bids: tuple[BidReply, ...] = ()
    want: int = 0
    accept_only: str = ""
    order_by: str = ""
    output: tuple[OutputPiece, ...] = ()
    manager: str = ""
    guards: bool = False  # runs end on the cluster when it loses contact, even without the agent
    node_rules: NodeRules | None = None  # None: the agent cannot bind jobs to hosts
    wait: float = 0.0
    state: Mapping[str, object] | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, int] | None = None
    mark: str = ""  # database mark of the last answer
    recalls: bool = False  # the agent can answer a recall
    recall: RecallReport | None = None

    def has_changes(self) -> bool:
        """Return True if anything in the message must be stored; bids and the inventory need not be."""
        return bool(
            self.reports
            or self.unknown
            or self.accepts
            or self.rejects
            or self.command_acks
            or self.output
            or self.state is not None
            or self.marks
            or self.used is not None
            or self.recall is not None
        )


@dataclass(slots=True)
class AgentReply:
    """The answer to a Sync message."""

    confirms: list[AttemptRef] = field(default_factory=list)
    offers: list[tuple[Attempt, Job]] = field(default_factory=list)
    hosts: dict[str, tuple[GroupHosts, ...]] = field(default_factory=dict)  # by fence, for offers bound to hosts
    commands: list[Command] = field(default_factory=list)
    kills: list[AttemptRef] = field(default_factory=list)
    acked: list[AttemptRef] = field(default_factory=list)
    unknown: list[AttemptRef] = field(default_factory=list)  # their reports were stored as text
    output_acks: list[tuple[AttemptRef, str, int]] = field(default_factory=list)
    expected: list[AttemptRef] = field(default_factory=list)
    resync: bool = False
    recall: bool = False  # the message was ignored: send a recall
    mark: str = ""

    def has_content(self) -> bool:
        """Return True if there is a reason to answer at once."""
        return bool(
            self.confirms
            or self.offers
            or self.commands
            or self.kills
            or self.acked
            or self.unknown
            or self.output_acks
            or self.expected
            or self.resync
        )


def journal_of(epoch: str) -> str:
    """Return the journal id in an agent's epoch; it survives restarts of the agent."""
    return epoch.partition(".")[0]
