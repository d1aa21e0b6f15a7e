"""The agent's state, and the draft in which the reactor builds the next state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rainbow_sched.agent.core.events import Command, Forget, WriteJournal
from rainbow_sched.agent.core.journal_records import attempt_record, ended_record, forgotten_record
from rainbow_sched.agent.core.values import STEPS, AttemptStep, LocalAttempt, PastAttempt, Phase, Result, StopReason
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import (
    STREAMS,
    AttemptRef,
    BidAnswer,
    Offer,
    OutputPiece,
    ReportedFacts,
    SyncMessage,
)

NEVER = float("-inf")
MAX_PAST_ATTEMPTS = 4_096  # finished attempts to remember; bounds the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    max_jobs: int = 64  # accepted jobs that have not ended
    max_wait: float = 25.0  # seconds that a Sync may wait at the server
    run_guard: float = 1_500.0  # seconds without contact until a job that may be declared lost is ended here
    output_grace: float = 5.0  # seconds after the end by which it is reported, even with output still to send
    output_give_up: float = 600.0  # seconds after the end until unsent output is given up
    chunk: int = 256 * 1024  # bytes of output read at once
    chunks: int = 8  # chunks of output being read or sent


@dataclass(kw_only=True)
class AgentState:
    """The agent's state. `react` returns the next one and leaves this one as it is."""

    limits: AgentLimits = AgentLimits()
    fresh: bool = False  # this process created the journal: attempts that the server expects were lost with the old one
    stopping: bool = False
    attempts: dict[AttemptRef, LocalAttempt] = field(default_factory=dict)
    past: dict[AttemptRef, PastAttempt] = field(default_factory=dict)
    checking: dict[AttemptRef, Offer] = field(default_factory=dict)
    rejects: dict[AttemptRef, str] = field(default_factory=dict)
    expected: dict[AttemptRef, float | None] = field(default_factory=dict)  # next lookup; None: one is open
    acks: tuple[int, ...] = ()
    acks_pending: tuple[tuple[int, AttemptRef], ...] = ()  # commands to acknowledge once their record is on disk
    open_bids: set[str] = field(default_factory=set)  # bid requests that the backend has not answered yet
    bids: tuple[tuple[str, BidAnswer], ...] = ()
    chunks: dict[tuple[AttemptRef, str], OutputPiece] = field(default_factory=dict)
    open_reads: set[tuple[AttemptRef, str]] = field(default_factory=set)
    failed_reads: dict[tuple[AttemptRef, str], float] = field(default_factory=dict)  # failed reads: when to retry
    facts: ReportedFacts | None = None
    facts_reported: ReportedFacts | None = None
    facts_at: float = NEVER  # when facts were last sent
    seq: int = 0
    in_flight: SyncMessage | None = None  # the unanswered message
    sent_at: float = 0.0  # when it was first sent
    listening: int | None = None  # seq of an older call that still waits at the server and may bring offers
    listening_at: float = 0.0
    resend_at: float | None = None
    answered: SyncMessage | None = None  # the last answered message
    send_at: float = 0.0  # earliest time of the next message
    quiet_until: float = 0.0  # earliest time of a message without news
    empty_answers: int = 0  # consecutive empty answers that came at once
    resynced: bool = False  # the last answer asked for a resync
    heartbeat: float = 25.0
    server: str = ""  # id of the server process that answered last
    contact_at: float | None = None  # when the last answered message was sent
    mark: str = ""  # the server's mark of its database
    recalling: bool = False  # the server's database was restored: send all attempts with the next message


class StateDraft(AgentState):
    """The next state while handlers build it: a copy of the last one, with the commands to return."""

    def __init__(self, state: AgentState, now: float) -> None:
        values: dict[str, Any] = vars(state)
        own = {name: value.copy() for name, value in values.items() if isinstance(value, dict | set)}
        vars(self).update(values | own)
        self.now = now
        self.commands: list[Command] = []

    def done(self) -> AgentState:
        return AgentState(**{name: value for name, value in vars(self).items() if name not in ("now", "commands")})

    def do(self, command: Command) -> None:
        self.commands.append(command)

    def step(self, attempt: LocalAttempt, step: AttemptStep) -> LocalAttempt | None:
        """Move an attempt to the next phase; return None if the step is not allowed in its phase."""
        phase = STEPS.get((attempt.phase, step))
        if phase is None:
            return None
        moved = replace(attempt, phase=phase)
        self.attempts[attempt.ref] = moved
        return moved

    def out_of_contact(self, attempt: LocalAttempt) -> bool:
        """Return True if the guard time without contact is over, or if there was no contact yet."""
        guard = attempt.offer.guard(self.limits.run_guard)
        return guard is not None and (self.contact_at is None or self.now >= self.contact_at + guard)

    def end(self, attempt: LocalAttempt, result: Result) -> None:
        """Record a result; it is reported once it is on disk."""
        if attempt.stop_reason is StopReason.GUARD and result.state is AttemptState.CANCELLED:
            result = replace(
                result, state=AttemptState.PREEMPTED, reason="the server could not be reached for too long"
            )
        moved = self.step(attempt, AttemptStep.END)
        if moved is not None:
            ended = replace(moved, result=result, ended_clock=self.now, act_at=None)
            self.attempts[attempt.ref] = ended
            self.do(WriteJournal(attempt.ref, "end", ended_record(ended)))

    def request_stop(self, attempt: LocalAttempt, stop_reason: StopReason) -> LocalAttempt:
        """Record that the attempt is to end."""
        stopping = replace(attempt, stop_reason=stop_reason)
        self.attempts[attempt.ref] = stopping
        self.do(WriteJournal(attempt.ref, "cancel", attempt_record(attempt.ref, "cancel", wish=stop_reason.value)))
        return stopping

    def forget(self, ref: AttemptRef, past: PastAttempt) -> None:
        """Drop an attempt whose end the server has stored; keep its result."""
        self.attempts.pop(ref, None)
        for stream in STREAMS:
            self.chunks.pop((ref, stream), None)
            self.open_reads.discard((ref, stream))
            self.failed_reads.pop((ref, stream), None)
        self.remember(ref, past, "forget")
        self.do(Forget(ref))

    def remember(self, ref: AttemptRef, past: PastAttempt, kind: str) -> None:
        """Remember a finished attempt; drop the oldest ones."""
        self.past[ref] = past
        while len(self.past) > MAX_PAST_ATTEMPTS:
            del self.past[next(iter(self.past))]
        self.do(WriteJournal(ref, kind, forgotten_record(ref, past)))


def active(attempt: LocalAttempt) -> bool:
    """Return True while the attempt counts against `max_jobs`."""
    return attempt.phase not in (Phase.ENDED, Phase.FINISHED)
