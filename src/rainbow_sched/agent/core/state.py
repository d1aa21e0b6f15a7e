"""The agent's state, and the draft in which the reactor builds the next state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rainbow_sched.agent.core.events import Command, Forget, SyncMessage, WriteJournal
from rainbow_sched.agent.core.journal_records import cancelled_record, ended_record, forgotten_record
from rainbow_sched.agent.core.values import (
    STEPS,
    STREAMS,
    BidAnswer,
    Chunk,
    Facts,
    Held,
    Offer,
    Past,
    Phase,
    Ref,
    Result,
    Step,
    Wish,
)
from rainbow_sched.model.attempt import AttemptState

NEVER = float("-inf")
MAX_PAST = 4_096  # finished attempts to remember


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits and timeouts of an agent."""

    max_jobs: int = 64
    max_wait: float = 25.0  # seconds that a Sync may wait at the server
    run_guard: float = 1_500.0  # seconds without contact until a job that may be declared lost is ended here
    output_grace: float = 5.0  # seconds after the end by which it is reported, even with output still to send
    output_give_up: float = 600.0
    chunk: int = 256 * 1024
    chunks: int = 8  # chunks of output being read or sent


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The agent's state. Immutable: `react` returns the next one."""

    limits: Limits = Limits()
    fresh: bool = False  # this process created the journal: attempts that the server expects were lost with the old one
    stopping: bool = False
    held: Mapping[Ref, Held] = field(default_factory=dict)
    past: Mapping[Ref, Past] = field(default_factory=dict)
    judging: Mapping[Ref, Offer] = field(default_factory=dict)
    rejects: Mapping[Ref, str] = field(default_factory=dict)
    expected: Mapping[Ref, float | None] = field(default_factory=dict)  # when to look up again; None: a lookup is open
    acks: tuple[int, ...] = ()
    acks_waiting: tuple[tuple[int, Ref], ...] = ()  # commands to acknowledge once their record is on disk
    bidding: frozenset[str] = frozenset()  # bid requests that the backend has not answered yet
    bids: tuple[tuple[str, BidAnswer], ...] = ()
    chunks: Mapping[tuple[Ref, str], Chunk] = field(default_factory=dict)
    reading: frozenset[tuple[Ref, str]] = frozenset()
    unread: Mapping[tuple[Ref, str], float] = field(default_factory=dict)  # failed reads: when to retry
    facts: Facts | None = None
    facts_told: Facts | None = None
    facts_at: float = NEVER  # when facts were last sent
    seq: int = 0
    flight: SyncMessage | None = None  # the unanswered message
    flight_at: float = 0.0  # when it was first sent
    listening: int | None = None  # seq of an older call that still waits at the server and may bring offers
    listening_at: float = 0.0
    resend_at: float | None = None
    answered: SyncMessage | None = None  # the last answered message
    send_at: float = 0.0  # earliest time of the next message
    quiet_until: float = 0.0  # earliest time of a message without news
    hasty: int = 0  # consecutive empty answers that came at once
    resynced: bool = False  # the last answer asked for a resync
    heartbeat: float = 25.0
    server: str = ""  # id of the server process that answered last
    contact_at: float | None = None  # when the last answered message was sent
    mark: str = ""  # the server's mark of its database
    recalling: bool = False  # the server's database was restored: send all attempts with the next message


class Draft:
    """A mutable copy of the state in which handlers build the next one, with the commands to return."""

    def __init__(self, state: State, now: float) -> None:
        self.before = state
        self.now = now
        self.limits = state.limits
        self.commands: list[Command] = []
        self.held = dict(state.held)
        self.past = dict(state.past)
        self.judging = dict(state.judging)
        self.rejects = dict(state.rejects)
        self.expected = dict(state.expected)
        self.acks = state.acks
        self.acks_waiting = state.acks_waiting
        self.bidding = set(state.bidding)
        self.bids = state.bids
        self.chunks = dict(state.chunks)
        self.reading = set(state.reading)
        self.unread = dict(state.unread)
        self.facts, self.facts_told, self.facts_at = state.facts, state.facts_told, state.facts_at
        self.stopping, self.resynced, self.hasty = state.stopping, state.resynced, state.hasty
        self.seq, self.flight, self.flight_at, self.resend_at = (
            state.seq,
            state.flight,
            state.flight_at,
            state.resend_at,
        )
        self.listening, self.listening_at = state.listening, state.listening_at
        self.answered, self.send_at, self.quiet_until = state.answered, state.send_at, state.quiet_until
        self.heartbeat, self.contact_at, self.server = state.heartbeat, state.contact_at, state.server
        self.mark, self.recalling = state.mark, state.recalling

    def done(self) -> State:
        return replace(
            self.before,
            stopping=self.stopping,
            resynced=self.resynced,
            hasty=self.hasty,
            held=self.held,
            past=self.past,
            judging=self.judging,
            rejects=self.rejects,
            expected=self.expected,
            acks=self.acks,
            acks_waiting=self.acks_waiting,
            bidding=frozenset(self.bidding),
            bids=self.bids,
            chunks=self.chunks,
            reading=frozenset(self.reading),
            unread=self.unread,
            facts=self.facts,
            facts_told=self.facts_told,
            facts_at=self.facts_at,
            seq=self.seq,
            flight=self.flight,
            flight_at=self.flight_at,
            resend_at=self.resend_at,
            listening=self.listening,
            listening_at=self.listening_at,
            answered=self.answered,
            send_at=self.send_at,
            quiet_until=self.quiet_until,
            heartbeat=self.heartbeat,
            contact_at=self.contact_at,
            server=self.server,
            mark=self.mark,
            recalling=self.recalling,
        )

    def do(self, command: Command) -> None:
        self.commands.append(command)

    def step(self, held: Held, step: Step) -> Held | None:
        """Move an attempt to the next phase; return None if the step is not allowed in its phase."""
        phase = STEPS.get((held.phase, step))
        if phase is None:
            return None
        moved = replace(held, phase=phase)
        self.held[held.ref] = moved
        return moved

    def alone(self, held: Held) -> bool:
        """Return True if the guard time without contact is over, or if there was no contact yet."""
        guard = held.offer.guard(self.limits.run_guard)
        return guard is not None and (self.contact_at is None or self.now >= self.contact_at + guard)

    def end(self, held: Held, result: Result) -> None:
        """Record a result; it is reported once it is on disk."""
        if held.wish is Wish.GUARD and result.state is AttemptState.CANCELLED:
            result = replace(
                result, state=AttemptState.PREEMPTED, reason="the server could not be reached for too long"
            )
        moved = self.step(held, Step.END)
        if moved is not None:
            ended = replace(moved, result=result, ended_clock=self.now, act_at=None)
            self.held[held.ref] = ended
            self.do(WriteJournal(held.ref, "end", ended_record(ended)))

    def wish(self, held: Held, wish: Wish) -> Held:
        """Record that the attempt is to end."""
        wished = replace(held, wish=wish)
        self.held[held.ref] = wished
        self.do(WriteJournal(held.ref, "cancel", cancelled_record(held.ref, wish)))
        return wished

    def forget(self, ref: Ref, past: Past) -> None:
        """Drop an attempt whose end the server has stored; keep its result."""
        self.held.pop(ref, None)
        for stream in STREAMS:
            self.chunks.pop((ref, stream), None)
            self.reading.discard((ref, stream))
            self.unread.pop((ref, stream), None)
        self.remember(ref, past, "forget")
        self.do(Forget(ref))

    def remember(self, ref: Ref, past: Past, kind: str) -> None:
        """Remember a finished attempt; drop the oldest ones."""
        self.past[ref] = past
        while len(self.past) > MAX_PAST:
            del self.past[next(iter(self.past))]
        self.do(WriteJournal(ref, kind, forgotten_record(ref, past)))


def active(held: Held) -> bool:
    """Return True while the attempt counts against `max_jobs`."""
    return held.phase not in (Phase.ENDED, Phase.FINISHED)
