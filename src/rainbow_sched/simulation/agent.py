"""A simulated agent process: the real reactor with a simulated loop, disk and calls.

Each command of the reactor takes time, and the process may die meanwhile. The journal uses the
real format in memory: flushed data survives a crash; of unflushed data a prefix may survive, cut
in the middle of a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import compacted, last_mark, restored
from rainbow_sched.agent.core.reactor import due, react
from rainbow_sched.agent.core.state import AgentState
from rainbow_sched.agent.core.values import ClusterFacts, Result
from rainbow_sched.agent.runtime.journal import line, parse
from rainbow_sched.agent.runtime.link import Refusals
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.protocol.messages import BidAnswer, Offer, OutputPiece, SyncAnswer, SyncMessage, SyncRequest
from rainbow_sched.simulation.faults import Link
from rainbow_sched.simulation.loop import VirtualLoop
from rainbow_sched.simulation.manager import LIMITS, Manager
from rainbow_sched.simulation.server import SimServer

RPC_MARGIN = 3.0  # seconds that a call may take beyond the requested wait
CONTACT_EVERY = 1.0
POLL_EVERY = 1.5
REFUSED = Result(state=AttemptState.FAILED, failure=Failure.REFUSED, reason="the manager refuses it")


@dataclass(slots=True, kw_only=True)
class SyncCall:
    message: SyncMessage
    deadline: asyncio.TimerHandle | None = None
    cancel_call: Callable[[], object] = lambda: None  # set when the message arrives
    open: bool = True

    def end(self) -> None:
        """Tell the server that the call was cancelled."""
        self.cancel_call()


@dataclass(slots=True, kw_only=True)
class SimAgent:
    """The agent of one cluster, over all its processes."""

    cluster: str
    loop: VirtualLoop
    rng: Random
    wire: Link
    manager: Manager
    server: SimServer
    note: Callable[..., None]
    drift: float = 1.0
    up_since: float | None = None  # None: it is down
    starts: int = 0
    journals: int = 1
    disk: bytes = b""
    fresh: bool = True
    contact_file: float | None = None
    contact: float | None = None  # by the agent's clock: when the last answered message was sent
    state: AgentState = field(default_factory=AgentState)
    _boot: float = 0.0
    _unwritten: list[e.WriteJournal] = field(default_factory=list)
    _flushing: bool = False
    _submitting: list[Offer] = field(default_factory=list)
    _tick: asyncio.TimerHandle | None = None
    _calls: dict[int, SyncCall] = field(default_factory=dict)  # by seq
    _sent: dict[int, float] = field(default_factory=dict)  # when each message was first sent
    _failures: int = 0
    _refusals: Refusals = field(default_factory=Refusals)

    # --- life and death ---

    def clock(self) -> float:
        """Return seconds since the machine started, on a clock that drifts."""
        return (self.loop.time() - self._boot) * self.drift

    def start(self) -> None:
        """Start a process from the state on disk."""
        if self.up_since is not None:
            return
        self.starts += 1
        self.up_since = self.loop.time()
        records, good = parse(self.disk, self.cluster)
        self.disk = self.disk[:good]
        held, past = restored(records)
        self.state = AgentState(limits=LIMITS, fresh=self.fresh, attempts=held, past=past, mark=last_mark(records))
        self.fresh = False
        self.contact, self._sent = self.contact_file, {}
        self._refusals, self._failures = Refusals(), 0
        self.note("agent", self.cluster, "starts", len(held))
        self.event(e.Started(self.contact_file))
        self._later(self.rng.uniform(0.01, POLL_EVERY), self._poll)

    def crash(self, *, journal_lost: bool = False, rebooted: bool = False) -> None:
        """Kill the process between two steps; pending writes and submissions may or may not have arrived."""
        if self.up_since is None:
            return
        self.note("agent", self.cluster, "dies", journal_lost, rebooted)
        self.up_since = None
        tail = b"".join(line(write.record) for write in self._unwritten)
        self.disk += tail[: self.rng.randrange(len(tail) + 1)]
        for offer in self._submitting:
            if self.rng.random() < 0.5:
                self.manager.submit(offer)
        self._unwritten, self._submitting, self._flushing = [], [], False
        if self._tick is not None:
            self._tick.cancel()
        for call in list(self._calls.values()):
            self._give_up(call)
        if rebooted:
            self._boot, self.contact_file = self.loop.time(), None
        if journal_lost:
            self.disk, self.fresh = b"", True
            self.journals += 1

    def _later(self, delay: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `do` after a delay, unless the process dies first."""
        generation = self.starts

        def alive() -> None:
            if self.up_since is not None and self.starts == generation:
                do()

        return self.loop.call_later(delay, alive)

    def _soon(self, do: Callable[[], None]) -> None:
        self._later(self.wire.delay(), do)

    # --- the reactor ---

    def event(self, event: e.AgentEvent) -> None:
        """Pass an event to the real reactor and start its commands."""
        now = self.clock()
        self.state, commands = react(self.state, event, now)
        for command in commands:
            _DO[type(command)](self, command)
        if self._tick is not None:
            self._tick.cancel()
        at = due(self.state, now)
        self._tick = (
            None if at is None else self._later(max(0.005, (at - now) / self.drift), lambda: self.event(e.Tick()))
        )

    # --- the server ---

    def _send(self, command: e.SendSync) -> None:
        message = command.message
        earlier = self._calls.get(message.seq)
        if earlier is not None:
            self._give_up(earlier)
        self.note("sync", self.cluster, message.seq, len(message.accepts), len(message.reports), len(message.rejects))
        call = self._calls[message.seq] = SyncCall(message=message)
        self._sent.setdefault(message.seq, self.clock())
        generation = self.starts
        epoch = f"{self.cluster}-{self.journals}.{generation}"
        call.deadline = self._later(message.wait + RPC_MARGIN, lambda: self._failed(call, None))

        def arrives() -> None:
            manager = self.manager
            rules = NodeRules(hosts=True) if manager.binds else None
            request = SyncRequest(
                message=message,
                cluster=self.cluster,
                epoch=epoch,
                manager="sim",
                guards=manager.guards,
                node_rules=rules,
                recalls=True,
            )
            call.cancel_call = self.server.sync(request, answer)

        def answer(result: SyncAnswer | RainbowError) -> None:
            def back() -> None:
                if self.up_since is not None and self.starts == generation:
                    self._answered(call, result)

            self.wire.answer(back)

        self.wire.ask(arrives)

    def _give_up(self, call: SyncCall) -> None:
        """Cancel an open call; the server may notice."""
        self._done(call)
        if self.rng.random() < 0.7:
            self.loop.call_later(self.wire.delay(), call.end)

    def _answered(self, call: SyncCall, answer: SyncAnswer | RainbowError) -> None:
        if isinstance(answer, RainbowError):
            self._failed(call, answer)
            return
        if not call.open and self.rng.random() < 0.5:
            return  # the loop usually drops answers to cancelled calls, except one that was queued already
        if call.open:
            self._done(call)
            self._failures = 0
            self._refusals.answered()
        known = self.state.contact_at
        if known is not None and (self.contact_file is None or known - self.contact_file >= CONTACT_EVERY):
            self.contact_file = known
            self.manager.heard = self._boot + known / self.drift
        self.contact = max(self.contact or 0.0, self._sent.get(answer.ack, 0.0))
        self.event(e.SyncAnswered(answer))

    def _failed(self, call: SyncCall, problem: RainbowError | None) -> None:
        if not call.open:
            return
        self._done(call)
        self._failures += 1
        pause: float | None = None
        if problem is not None:
            try:
                pause = self._refusals.pause(problem, self.clock())
            except RainbowError:
                self.note("agent", self.cluster, "gives up", problem)
                self.crash()
                self.loop.call_later(self.rng.uniform(1.0, 5.0), self.start)
                return
        retry = pause or min(2.0, 0.2 * 2**self._failures) * self.rng.uniform(0.5, 1.0)
        self.event(e.SyncFailed(call.message.seq, retry))

    def _done(self, call: SyncCall) -> None:
        call.open = False
        if call.deadline is not None:
            call.deadline.cancel()
        if self._calls.get(call.message.seq) is call:
            del self._calls[call.message.seq]

    # --- the journal ---

    def _write(self, command: e.WriteJournal) -> None:
        self._unwritten.append(command)
        if not self._flushing:
            self._flushing = True
            self._soon(self._flush)

    def _flush(self) -> None:
        batch, self._unwritten, self._flushing = self._unwritten, [], False
        self.disk += b"".join(line(write.record) for write in batch)
        for write in batch:
            self._later(0.0, partial(self.event, e.RecordStored(write.ref, write.kind)))
        if self.rng.random() < 0.02:
            self._later(0.5, self._compact)

    def _compact(self) -> None:
        if not self._unwritten:
            state = self.state
            self.disk = b"".join(map(line, compacted(state.attempts.values(), state.past, state.mark)))

    # --- the manager ---

    def _poll(self) -> None:
        updates = self.manager.poll()
        if updates is not None:
            facts = ClusterFacts(manager="sim", state={"busy": len(updates) > 2})
            self._soon(lambda: self.event(e.BackendUpdated(updates, facts)))
        self._later(self.rng.uniform(0.5, 1.5) * POLL_EVERY, self._poll)

    def _judge(self, command: e.CheckOffer) -> None:
        no = self.rng.random() < self.manager.rates.refusal
        self._soon(lambda: self.event(e.OfferChecked(command.offer, "not here, not now" if no else None)))

    def _submit(self, command: e.Submit) -> None:
        offer = command.offer
        self._submitting.append(offer)
        self._soon(lambda: self._submits(offer))

    def _submits(self, offer: Offer) -> None:
        self._submitting.remove(offer)
        answer: e.AgentEvent
        if self.manager.errs():
            if self.rng.random() < 0.5:
                self.manager.submit(offer)
            answer = e.SubmitUnclear(offer.ref, "the manager did not answer")
        elif self.rng.random() < self.manager.rates.refusal / 4:
            answer = e.SubmitRefused(offer.ref, REFUSED)
        else:
            answer = e.SubmitAnswered(offer.ref, self.manager.submit(offer))
        self._soon(lambda: self.event(answer))

    def _look_up(self, command: e.Lookup) -> None:
        def asks() -> None:
            answer = self.manager.lookup(command.ref.tag)
            self._soon(lambda: self.event(e.LookedUp(command.ref, answer)))

        self._soon(asks)

    def _cancel(self, command: e.Cancel) -> None:
        known, held = self.state.contact_at, self.state.attempts.get(command.ref)
        guard = None if held is None else held.offer.guard(LIMITS.run_guard)
        if known is not None and guard is not None and self.clock() >= known + guard:
            self.manager.witness.excused.add((command.ref.job, command.ref.n))
        self._soon(lambda: self.manager.cancel(command.ref.tag))

    def _read(self, command: e.ReadOutput) -> None:
        def reads() -> None:
            data = self.manager.output(command.ref.tag, command.offset, command.limit)
            self.event(e.OutputRead(OutputPiece(command.ref, command.stream, command.offset, data)))

        self._soon(reads)

    def _bid(self, command: e.AskBid) -> None:
        start = self.rng.uniform(0.0, 100.0)
        answer = BidAnswer(yes=self.rng.random() < 0.9, reason="", start_p50=start, start_p90=2 * start, valid_for=5.0)
        self._soon(lambda: self.event(e.BidReady(command.request.id, answer)))

    def _forget(self, command: e.Forget) -> None:
        self._soon(lambda: self.manager.forget(command.ref.tag))


_DO: dict[type, Callable[..., None]] = {
    e.SendSync: SimAgent._send,
    e.WriteJournal: SimAgent._write,
    e.CheckOffer: SimAgent._judge,
    e.Submit: SimAgent._submit,
    e.Lookup: SimAgent._look_up,
    e.Cancel: SimAgent._cancel,
    e.ReadOutput: SimAgent._read,
    e.AskBid: SimAgent._bid,
    e.Forget: SimAgent._forget,
}
