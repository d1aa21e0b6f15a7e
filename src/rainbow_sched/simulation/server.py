"""The simulated server: the real service in processes that crash and restart on the same database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.errors import Invalid, RainbowError, Unavailable
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, answer_to_proto, request_from_proto, request_to_proto
from rainbow_sched.protocol.messages import SyncAnswer, SyncRequest
from rainbow_sched.protocol.report_reader import REPORTED
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.simulation.disk import Disk, SimStore
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.simulation.loop import Process, VirtualLoop
from rainbow_sched.simulation.witness import Witness

EPOCH = 1_700_000_000.0


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
        process = self._process = Process(lambda problem: self.witness.broken("nothing breaks", repr(problem)))
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
            self.witness.broken("what runs by itself goes on", f"{task.get_coro()} ended: {task.exception()!r}")

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
        self, work: Callable[[Service], Coroutine[Any, Any, Any]], answer: Callable[[Any], None]
    ) -> Callable[[], object]:
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

        return process.spawn(self.loop, handled()).cancel

    def sync(self, request: SyncRequest, answer: Callable[[SyncAnswer | RainbowError], None]) -> Callable[[], object]:
        """Handle a Sync of an agent. Request and answer pass through their bytes, so that the codec is used as well."""
        states, process = self.states, str(self.starts)
        sent = request_to_proto(request).SerializeToString()

        async def work(service: Service) -> SyncAnswer:
            try:
                received = request_from_proto(agents_pb2.SyncRequest.FromString(sent), states)
                reply = answer_to_proto(await service.agents.sync(received, process)).SerializeToString()
            except Invalid as problem:
                self.witness.broken(
                    "R3 a Sync is never refused for one of its items", f"of {request.cluster}: {problem}"
                )
                raise
            self.witness.heard[request.cluster] = self.loop.time()  # a refused Sync is no contact
            return answer_from_proto(agents_pb2.SyncResponse.FromString(reply))

        return self.call(work, answer)
