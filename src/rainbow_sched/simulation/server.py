"""The simulated server: the real service in processes that crash and restart on the same database.

The database is in memory, with the real tables and queries; its commits survive simulated crashes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from random import Random
from typing import Any, TypeVar

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.errors import Conflict, Invalid, NotFound, RainbowError, Unavailable
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, answer_to_proto, request_from_proto, request_to_proto
from rainbow_sched.protocol.messages import SyncAnswer, SyncRequest
from rainbow_sched.protocol.report_reader import REPORTED
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.simulation.loop import Process, VirtualLoop
from rainbow_sched.simulation.witness import Witness
from rainbow_sched.store.base import DecidedJob, NewJob, Tx
from rainbow_sched.store.claim import Claimant, Replaced, check_claim, take_claim
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session
from rainbow_sched.store.sqlite import DIALECT
from rainbow_sched.store.transaction import SqlTx

EPOCH = 1_700_000_000.0
T = TypeVar("T")


class Disk:
    """A database that survives the server's processes."""

    def __init__(self, committed: Callable[[Tx], None]) -> None:
        """`committed` is called after each commit with a read transaction."""
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        self._connection.deserialize(_empty())
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._reader = self.session(writing=False)
        self._committed = committed

    def session(self, *, writing: bool) -> Session:
        return Session(self._connection.cursor(), DIALECT, writing=writing, close=lambda: None)

    def look(self, work: Callable[[Tx], T]) -> T:
        """Read the committed state from outside of any process."""
        self._reader.begin()
        try:
            return work(SqlTx(self._reader))
        finally:
            self._reader.rollback()

    def commit(self, session: Session, work: Callable[[Tx], T], tx: Callable[[Session], Tx] = SqlTx) -> T:
        """Run `work` and commit; roll back if it raises."""
        try:
            session.begin()
            answer = work(tx(session))
            session.flush()
        except Exception as error:  # any error of `work` rolls back
            session.rollback()
            raise DIALECT.translate(error) from error
        session.commit()
        self.look(self._committed)
        return answer

    def copy(self) -> bytes:
        return self._connection.serialize()

    def restore_copy(self, copy: bytes, restore: Callable[[Tx], object]) -> None:
        """Replace the database with an older copy and begin a restore, as `rainbow server restore` does."""
        self._connection.deserialize(copy)
        session = self.session(writing=True)
        session.begin()
        session.run("UPDATE claims SET term = term + 1000")  # a server that was suspended meanwhile has lost its claim
        restore(SqlTx(session))
        session.flush()
        session.commit()

    def close(self) -> None:
        self._connection.close()


@lru_cache(maxsize=1)
def _empty() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(Session(connection.cursor(), DIALECT, writing=True, close=connection.close))
    data = connection.serialize()
    connection.close()
    return data


class RefusingTx(SqlTx):
    """A transaction in which another writer is faster now and then, so that the store refuses a plan.

    It refuses where the real one does: a cluster of the plan has changed, before anything is written, or a job has
    moved on, after a part of the plan was written.
    """

    def __init__(self, db: Session, refuses: Callable[[], bool]) -> None:
        super().__init__(db)
        self._refuses = refuses

    def check_clusters(self, planned_for: Mapping[str, Cluster]) -> None:
        super().check_clusters(planned_for)
        if planned_for and self._refuses():
            raise NotFound("a cluster of the plan has just left (simulated)")

    def add_jobs(self, new_jobs: Sequence[NewJob]) -> list[int]:
        ids = super().add_jobs(new_jobs)
        if any(job.state is JobState.BOUND for job in new_jobs) and self._refuses():
            raise NotFound("a cluster of the plan has just left (simulated)")
        return ids

    def apply_decisions(self, decided: Sequence[DecidedJob], at: float) -> None:
        super().apply_decisions(decided, at)
        if self._refuses():
            raise Conflict("a job has changed since it was read (simulated)")

    def add_attempt(self, job: Job, cluster: str, token: str, at: float, *, n: int | None = None) -> Attempt:
        attempt = super().add_attempt(job, cluster, token, at, n=n)
        if n is None and self._refuses():  # with `n` it is found after a restore, and not planned
            raise Conflict(f"job {job.id} has an attempt already (simulated)")
        return attempt


class SimStore:
    """The store of one server process; calls take time, and other processes run meanwhile."""

    def __init__(
        self,
        disk: Disk,
        process: Process,
        pause: Callable[[], float],
        full: Callable[[], bool],
        refuses: Callable[[], bool] = lambda: False,
    ) -> None:
        """`pause` returns the duration of a step; `full` is True while the disk takes no writes.

        `refuses` says whether the next plan is refused.
        """
        self._tx = partial(RefusingTx, refuses=refuses)
        self._disk, self._process, self._pause, self._full = disk, process, pause, full
        self._writer, self._reader = disk.session(writing=True), disk.session(writing=False)
        self._claimant = Claimant("", ProcessIdentity("sim", 0, "", "", ""))  # the term alone tells them apart
        self._term = 0

    def take_claim(self) -> None:
        """Take the claim from the previous process, which may be dead or suspended."""
        self._writer.rows_of("UPDATE claims SET expires_at = 0 RETURNING term", {})
        self._term = take_claim(self._writer, self._claimant, wait=0.0)
        self._writer.guard = self.check_claim

    def check_claim(self, session: Session) -> None:
        """Raise Replaced and end this process if another process has taken the claim."""
        if not check_claim(session, self._claimant, self._term):
            asyncio.get_running_loop().call_soon(self._process.crash)
            raise Replaced("another server has taken over")

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        await self._takes_time()
        self._check()
        if self._full():
            raise Unavailable("the disk is full; nothing was stored")
        answer = self._disk.commit(self._writer, work, self._tx)
        await self._takes_time()
        self._check()
        return answer

    async def read(self, work: Callable[[Tx], T]) -> T:
        self._check()
        self.check_claim(self._reader)
        answer = self._disk.look(work)
        await self._takes_time()
        return answer

    async def close(self) -> None:
        """See `store.base.Store`."""

    async def _takes_time(self) -> None:
        pause = self._pause()
        if pause > 0:
            await asyncio.sleep(pause)

    def _check(self) -> None:
        if not self._process.alive:
            raise Unavailable("the process has ended")


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
