"""The server's database in memory: the real tables and queries; what is committed survives every simulated crash."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.simulation.loop import Process
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Claimant, Replaced, check_claim, take_claim
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session
from rainbow_sched.store.sqlite import DIALECT
from rainbow_sched.store.transaction import SqlTx

T = TypeVar("T")


class Disk:
    """One database that outlives the server's processes."""

    def __init__(self, committed: Callable[[Tx], None]) -> None:
        """`committed` is called after each commit, with a transaction to look through."""
        self._connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        self._connection.deserialize(_empty())
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._reader = self.session(writing=False)
        self._committed = committed

    def session(self, *, writing: bool) -> Session:
        """A connection as a new process opens it."""
        return Session(self._connection.cursor(), DIALECT, writing=writing, close=lambda: None)

    def look(self, work: Callable[[Tx], T]) -> T:
        """Read what is committed now, from outside of any process."""
        return _read(self._reader, work)

    def commit(self, session: Session, work: Callable[[Tx], T]) -> T:
        """Run `work` and make it last; what it raises undoes it."""
        try:
            session.begin()
            answer = work(SqlTx(session))
            session.flush()
        except Exception as error:  # whatever the work raised, it undoes it
            session.rollback()
            raise DIALECT.translate(error) from error
        session.commit()
        self.look(self._committed)
        return answer

    def copy(self) -> bytes:
        """What is committed now."""
        return self._connection.serialize()

    def put_back(self, copy: bytes, restore: Callable[[Tx], None]) -> None:
        """Replace everything by an older copy and begin a restore, as `rainbow server restore` does."""
        self._connection.deserialize(copy)
        session = self.session(writing=True)
        session.begin()
        session.run("UPDATE claims SET term = term + 1000")  # a server that stood still meanwhile has lost it
        restore(SqlTx(session))
        session.flush()
        session.commit()

    def close(self) -> None:
        """Let go of the memory."""
        self._connection.close()


def _read(session: Session, work: Callable[[Tx], T]) -> T:
    session.begin()
    try:
        return work(SqlTx(session))
    finally:
        session.rollback()


@lru_cache(maxsize=1)
def _empty() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(Session(connection.cursor(), DIALECT, writing=True, close=connection.close))
    data = connection.serialize()
    connection.close()
    return data


class SimStore:
    """A store as one server process sees it. Each call takes a little time, in which everything else goes on."""

    def __init__(self, disk: Disk, process: Process, pause: Callable[[], float], full: Callable[[], bool]) -> None:
        """`pause` says how long a step takes; `full` whether the disk refuses writes now."""
        self._disk, self._process, self._pause, self._full = disk, process, pause, full
        self._writer, self._reader = disk.session(writing=True), disk.session(writing=False)
        self._claimant = Claimant("", ProcessIdentity("sim", 0, "", "", ""))  # the term alone tells them apart
        self._term = 0

    def take_claim(self) -> None:
        """Take the claim from the process before, whether it is dead or will wake up again."""
        self._writer.rows_of("UPDATE claims SET expires_at = 0 RETURNING term", {})
        self._term = take_claim(self._writer, self._claimant, wait=0.0)
        self._writer.guard = self.check_claim

    def check_claim(self, session: Session) -> None:
        """Raise Replaced if another process has taken the claim; this one then ends."""
        if not check_claim(session, self._claimant, self._term):
            asyncio.get_running_loop().call_soon(self._process.crash)
            raise Replaced("another server has taken over")

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """See `store.base.Store`."""
        await self._takes_time()
        self._check()
        if self._full():
            raise Unavailable("the disk is full; nothing was stored")
        answer = self._disk.commit(self._writer, work)
        await self._takes_time()
        self._check()
        return answer

    async def read(self, work: Callable[[Tx], T]) -> T:
        """See `store.base.Store`."""
        self._check()
        self.check_claim(self._reader)
        answer = _read(self._reader, work)
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
