"""The server's database in memory, with the real tables and queries; commits survive simulated crashes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from rainbow_sched.model.attempt import Attempt
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.errors import Conflict, NotFound, Unavailable
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.simulation.loop import Process
from rainbow_sched.store.base import DecidedJob, NewJob, Tx
from rainbow_sched.store.claim import Claimant, Replaced, check_claim, take_claim
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session
from rainbow_sched.store.sqlite import DIALECT
from rainbow_sched.store.transaction import SqlTx

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
        """Return a copy of the committed state."""
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
