"""The simulated server: the real service in processes that crash and restart on the same database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core import values as v
from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, RainbowError, Unavailable
from rainbow_sched.model.job import Job
from rainbow_sched.service.agents import report_reader
from rainbow_sched.service.agents.report_reader import REPORTED, RawReport
from rainbow_sched.service.agents.sync_messages import (
    AgentMessage,
    AgentReply,
    AttemptRef,
    AttemptReport,
    BidReply,
    OutputPiece,
    RecalledAttempt,
    RecalledOffer,
    RecallReport,
    UnknownReport,
)
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.simulation.disk import Disk, SimStore
from rainbow_sched.simulation.fault_rates import FaultRates
from rainbow_sched.simulation.loop import Process, VirtualLoop
from rainbow_sched.simulation.witness import Witness

EPOCH = 1_700_000_000.0
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(e.SyncAnswer)


@dataclass(slots=True)
class WallClock:
    """The wall clock of the machine, which can jump."""

    loop: VirtualLoop
    offset: float = EPOCH

    def time(self) -> float:
        """Return seconds since the epoch, according to the machine."""
        return self.offset + self.loop.time()


class ProcessClock:
    """Like `AnchoredClock`: the wall clock at the start of the process, plus a monotonic clock."""

    def __init__(self, wall: WallClock) -> None:
        self._loop = wall.loop
        self._anchor = wall.time() - wall.loop.time()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._anchor + self._loop.time()

    def seconds_slept(self) -> float:
        """Return 0: simulated machines do not sleep."""
        return 0.0


@dataclass(slots=True, kw_only=True)
class SimServer:
    """The server, of which at most one process at a time is current."""

    loop: VirtualLoop
    rng: Random
    disk: Disk
    wall: WallClock
    settings: Settings
    rates: FaultRates
    witness: Witness
    ids: Ids
    fail: Callable[[str, str], None]
    service: Service | None = None  # None: it is down or not yet ready
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    full: bool = False
    old: Random = field(default_factory=Random)  # draws processes of an older version
    refusals: Random = field(default_factory=Random)  # draws plans that the store refuses
    states: frozenset[AttemptState] = REPORTED  # reported states that the current process knows
    starts: int = 0
    _process: Process | None = None

    def start(self) -> None:
        """Start a process, unless one is running."""
        if self._process is not None:
            return
        self.starts += 1
        older = self.old.random() < self.rates.older_server
        self.states = frozenset(state for state in sorted(REPORTED) if not older or self.old.random() < 0.6)
        process = self._process = Process(lambda problem: self.fail("nothing breaks", repr(problem)))
        store = SimStore(self.disk, process, self.pause, lambda: self.full, self.refuses)
        store.take_claim()
        process.spawn(self.loop, self._begin(store))

    async def _begin(self, store: SimStore) -> None:
        try:
            service = await assemble(store, self.settings, ProcessClock(self.wall), self.ids, "a secret to register")
        except Unavailable:  # the disk is full: retry later
            self._process = None
            self.loop.call_later(2.0, self.start)
            return
        service.start()
        for task in service._running:
            task.add_done_callback(self._must_not_end)
        self.service = service
        self.ready.set()
        self.witness.server_since = self.loop.time()
        self.witness.note("server", "ready")

    def _must_not_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.fail("what runs by itself goes on", f"{task.get_coro()} ended: {task.exception()!r}")

    def crash(self) -> None:
        """Kill the process; its commits stay."""
        if self._process is not None:
            self.witness.note("server", "dies")
            self._process.crash()
            self._process = self.service = None
            self.ready.clear()
            self.witness.server_since = None

    def replace(self, wakes_for: float) -> None:
        """Start another process beside one that was suspended until its claim expired.

        The old process resumes at once with its state in memory, until it notices or for `wakes_for` seconds.
        """
        old = self._process
        if old is None or self.service is None:
            return
        self.witness.note("server", "is replaced and wakes up")
        self.loop.call_later(wakes_for, old.crash)
        self._process = self.service = None
        self.ready.clear()
        self.witness.server_since = None
        self.start()

    def pause(self) -> float:
        """Return the duration of one step of the store."""
        luck = self.rng.random()
        if luck < self.rates.slow / 10:
            return self.rng.uniform(0.05, 1.5)
        return 0.0 if luck < 0.7 else self.rng.uniform(0.0, 0.005)

    def refuses(self) -> bool:
        """Return True if the store refuses a plan now."""
        return self.refusals.random() < self.rates.apply_refused

    def call(
        self,
        work: Callable[[Service], Coroutine[Any, Any, Any]],
        answer: Callable[[Any], None],
    ) -> Callable[[], None]:
        """Run a call in the current process and answer with its result or error; return a function that cancels it."""
        service, process = self.service, self._process
        if service is None or process is None:
            answer(Unavailable("the server is down"))
            return lambda: None

        async def handled() -> None:
            try:
                result = await work(service)
            except RainbowError as problem:
                result = problem
            if process.alive:
                answer(result)

        task = process.spawn(self.loop, handled())

        def cancel_call() -> None:
            task.cancel()

        return cancel_call

    def sync(
        self,
        cluster: str,
        epoch: str,
        message: e.SyncMessage,
        answer: Callable[[e.SyncAnswer | RainbowError], None],
        *,
        guards: bool,
        node_rules: NodeRules | None,
    ) -> Callable[[], None]:
        """Handle a Sync of an agent."""
        states, process = self.states, str(self.starts)

        async def work(service: Service) -> e.SyncAnswer:
            try:
                agent_message = replace(sync_in(cluster, epoch, message, states), guards=guards, node_rules=node_rules)
                reply = await service.agents.sync(
                    agent_message, lambda out: _encoder.encode(replace(sync_out(message.seq, out), server=process))
                )
            except Invalid as problem:
                self.fail("R3 a Sync is never refused for one of its items", f"of {cluster}: {problem}")
                raise
            self.witness.heard[cluster] = self.loop.time()  # a refused Sync is no contact
            sync_answer: e.SyncAnswer = _decoder.decode(reply.answer)
            now = service.core.clock.now()
            questions = tuple(e.BidRequest(q.id, q.spec, max(0.0, q.until - now)) for q in reply.bid_requests)
            return replace(sync_answer, bid_requests=questions, heartbeat=reply.heartbeat)

        return self.call(work, answer)


def sync_in(cluster: str, epoch: str, message: e.SyncMessage, states: frozenset[AttemptState]) -> AgentMessage:
    """Convert an agent's message for the service, which knows only `states` of its reports."""
    reports = [report_reader.read_report(_raw(report), states) for report in message.reports]
    return AgentMessage(
        cluster=cluster,
        epoch=epoch,
        seq=message.seq,
        held=tuple((_there(ref), state) for ref, state in message.held),
        reports=tuple(report for report in reports if isinstance(report, AttemptReport)),
        unknown=tuple(report for report in reports if isinstance(report, UnknownReport)),
        accepts=tuple(_there(ref) for ref in message.accepts),
        rejects=tuple((_there(ref), reason) for ref, reason in message.rejects),
        command_acks=message.acks,
        bids=tuple(
            BidReply(
                id=id,
                yes=bid.yes,
                reason=bid.reason,
                values={"start_p50": bid.start_p50, "start_p90": bid.start_p90, "valid_for": bid.valid_for},
            )
            for id, bid in message.bids
        ),
        want=message.want,
        output=tuple(
            OutputPiece(ref=_there(chunk.ref), stream=chunk.stream, offset=chunk.offset, data=chunk.data)
            for chunk in message.output
        ),
        manager="sim",
        wait=message.wait,
        state=None if message.facts is None else message.facts.state,
        mark=message.mark,
        recalls=True,
        recall=None if message.recall is None else _recall(message.recall, states),
    )


def _recall(recall: e.Recall, states: frozenset[AttemptState]) -> RecallReport:
    return RecallReport(attempts=tuple(_known(known, states) for known in recall.attempts), complete=recall.complete)


def _known(known: e.KnownAttempt, states: frozenset[AttemptState]) -> RecalledAttempt:
    offer = known.offer
    return RecalledAttempt(
        ref=_there(known.ref),
        phase=known.phase,
        report=None if known.report is None else report_reader.read_report(_raw(known.report), states),
        offer=None
        if offer is None
        else RecalledOffer(name=offer.name, owner=offer.owner, spec=offer.spec, terms=offer.terms),
    )


def _raw(report: e.Report) -> RawReport:
    result = report.result
    return RawReport(
        ref=_there(report.ref),
        state=report.state,
        exit_code=None if result is None else result.exit_code,
        failure="" if result is None or result.failure is None else result.failure.value,
        reason="" if result is None else result.reason,
        native_id=report.native,
        nodes=report.nodes,
        code="" if result is None else result.code,
    )


def _there(ref: v.Ref) -> AttemptRef:
    return AttemptRef(ref.job, ref.n, ref.token)


def _back(ref: AttemptRef) -> v.Ref:
    return v.Ref(ref.job, ref.n, ref.token)


def sync_out(seq: int, out: AgentReply) -> e.SyncAnswer:
    """Convert the service's answer for the reactor."""
    commands = [e.ServerCommand(c.id, c.kind, v.Ref(c.job, c.n, c.token)) for c in out.commands]
    commands += [e.ServerCommand(0, "kill", _back(ref), "the server does not know it as live") for ref in out.kills]
    return e.SyncAnswer(
        ack=seq,
        confirms=tuple(map(_back, out.confirms)),
        offers=tuple(_offer(attempt, job, out.hosts.get(attempt.token, ())) for attempt, job in out.offers),
        commands=tuple(commands),
        resync=out.resync,
        expected=tuple(map(_back, out.expected)),
        acked=tuple(map(_back, out.acked)),
        unknown=tuple(map(_back, out.unknown)),
        mark=out.mark,
        recall=out.recall,
        output_acks=tuple((_back(ref), stream, offset) for ref, stream, offset in out.output_acks),
    )


def _offer(attempt: Attempt, job: Job, hosts: tuple[GroupHosts, ...]) -> v.Offer:
    lease = (attempt.lease_until or attempt.created_at) - attempt.created_at
    return v.Offer(
        ref=v.Ref(attempt.job, attempt.n, attempt.token),
        name=job.name,
        owner=job.owner,
        spec=job.spec,
        terms=msgspec.json.encode(asdict(job.terms)).decode(),
        lease=max(0.0, lease),
        priority=job.terms.priority,
        hosts=hosts,
        hosts_checked=True,
    )
