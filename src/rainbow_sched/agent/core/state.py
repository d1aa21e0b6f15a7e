"""All that an agent knows at one moment, and the draft in which a reaction makes the next one."""

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
MAX_PAST = 4_096  # attempts that are over and still remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the site allows its agent."""

    max_jobs: int = 64
    max_wait: float = 25.0  # seconds a Sync may wait for news
    run_guard: float = 1_500.0  # without contact for so long, a run that the server would give up is ended here
    output_grace: float = 5.0  # the end is told at the latest so long after it, though output is still to be sent
    output_give_up: float = 600.0
    chunk: int = 256 * 1024
    chunks: int = 8  # pieces of output on their way at once


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Never mutated: `react` returns the next one."""

    limits: Limits = Limits()
    fresh: bool = False  # the journal was created by this start: what the server expects was lost with the old one
    stopping: bool = False
    held: Mapping[Ref, Held] = field(default_factory=dict)
    past: Mapping[Ref, Past] = field(default_factory=dict)
    judging: Mapping[Ref, Offer] = field(default_factory=dict)
    rejects: Mapping[Ref, str] = field(default_factory=dict)
    expected: Mapping[Ref, float | None] = field(default_factory=dict)  # when to look up again; None: asked now
    acks: tuple[int, ...] = ()
    acks_waiting: tuple[tuple[int, Ref], ...] = ()  # commands to acknowledge once their record is on disk
    bidding: frozenset[str] = frozenset()  # bid requests that the backend has not answered yet
    bids: tuple[tuple[str, BidAnswer], ...] = ()
    chunks: Mapping[tuple[Ref, str], Chunk] = field(default_factory=dict)
    reading: frozenset[tuple[Ref, str]] = frozenset()
    unread: Mapping[tuple[Ref, str], float] = field(default_factory=dict)  # failed to be read: when to try again
    facts: Facts | None = None
    facts_told: Facts | None = None
    facts_at: float = NEVER  # when facts were last sent
    seq: int = 0
    flight: SyncMessage | None = None  # the message without an answer yet
    flight_at: float = 0.0  # when it was first sent
    listening: int | None = None  # an older message that waits at the server and may still bring offers
    listening_at: float = 0.0
    resend_at: float | None = None
    answered: SyncMessage | None = None  # the last message that was answered
    send_at: float = 0.0  # nothing is sent before
    quiet_until: float = 0.0  # without news nothing is sent before
    hasty: int = 0  # empty answers in a row that came without waiting
    resynced: bool = False  # the last answer asked for everything again
    heartbeat: float = 25.0
    server: str = ""  # the process of the server that answered last
    contact_at: float | None = None  # when the last answered message was sent
    mark: str = ""  # how far the server's database had come when it was last heard of
    recalling: bool = False  # the server's database is an older copy: the next message tells everything


class Draft:
    """One reaction in the making: copies that handlers change, and the commands they ask for."""

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
        """The next state."""
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
        """Ask for something to be done."""
        self.commands.append(command)

    def step(self, held: Held, step: Step) -> Held | None:
        """Move a held attempt along the table; None if no arrow leads there."""
        phase = STEPS.get((held.phase, step))
        if phase is None:
            return None
        moved = replace(held, phase=phase)
        self.held[held.ref] = moved
        return moved

    def alone(self, held: Held) -> bool:
        """True if the server may soon give it up: not heard of for as long as its guard allows, or not at all."""
        guard = held.offer.guard(self.limits.run_guard)
        return guard is not None and (self.contact_at is None or self.now >= self.contact_at + guard)

    def end(self, held: Held, result: Result) -> None:
        """The result is known: write it down, then report it."""
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
        """Write down that it is to end."""
        wished = replace(held, wish=wish)
        self.held[held.ref] = wished
        self.do(WriteJournal(held.ref, "cancel", cancelled_record(held.ref, wish)))
        return wished

    def forget(self, ref: Ref, past: Past) -> None:
        """It is over and the server knows: keep only a memory of it."""
        self.held.pop(ref, None)
        for stream in STREAMS:
            self.chunks.pop((ref, stream), None)
            self.reading.discard((ref, stream))
            self.unread.pop((ref, stream), None)
        self.remember(ref, past, "forget")
        self.do(Forget(ref))

    def remember(self, ref: Ref, past: Past, kind: str) -> None:
        """Keep a memory of an attempt that is over; the oldest memories go."""
        self.past[ref] = past
        while len(self.past) > MAX_PAST:
            del self.past[next(iter(self.past))]
        self.do(WriteJournal(ref, kind, forgotten_record(ref, past)))


def active(held: Held) -> bool:
    """True while it takes a place."""
    return held.phase not in (Phase.ENDED, Phase.FINISHED)
