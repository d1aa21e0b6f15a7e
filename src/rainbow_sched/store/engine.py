"""The SQL store: one writer with group commit and a pool of reader threads."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Claim
from rainbow_sched.store.session import Session
from rainbow_sched.store.transaction import SqlTx
from rainbow_sched.store.writer import RECONNECT_SECONDS, RETRY_SECONDS, ConnectionLost, Counts, Writer

T = TypeVar("T")
READER_THREADS = 4  # concurrent reads, each with a connection of its own


class SqlStore:
    """`base.Store` on a SQL database."""

    def __init__(
        self,
        writer: Session,
        connect: Callable[[bool], Session],
        release: Callable[[], None] = lambda: None,
        claim: Claim | None = None,
    ) -> None:
        """`connect` opens a session that writes (True) or reads; `release` unlocks the database when the store closes.

        Each session gets the guard and the observer of `writer`.

        With a `claim` this is the store of a server: it stops writing and reading once another server has taken over.
        """
        self._connect = connect
        self.claim = claim
        self._release = release
        self._guard, self._on_event = writer.guard, writer.on_event
        self._writer = Writer(lambda: self._open(True), writer)
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="rainbow-reader")
        self._idle: queue.LifoQueue[Session] = queue.LifoQueue()
        self._closed = False
        self._writer.start()

    @property
    def counts(self) -> Counts:
        """Return the numbers of commits and of works committed."""
        return self._writer.counts

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        answer: T = await self._writer.write(work, brief=brief)
        return answer

    async def read(self, work: Callable[[Tx], T]) -> T:
        if self._closed:
            raise Unavailable("the store is closed")
        if self.claim is not None and not self.claim.is_confirmed():
            await self.claim.confirm()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._shut)

    def _shut(self) -> None:
        self._writer.close()
        self._threads.shutdown()
        while not self._idle.empty():
            self._idle.get_nowait().close()
        if self.claim is not None:
            self.claim.close()
        self._release()

    def _read(self, work: Callable[[Tx], T]) -> T:
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                session = self._reader()
                return self._read_once(session, work)
            except ConnectionLost as lost:
                if self._closed or time.monotonic() >= deadline:
                    raise Unavailable(f"the database cannot be reached: {lost}; try again later") from lost
            time.sleep(RETRY_SECONDS)  # in a pool thread; there is no notification when the database is back

    def _open(self, writing: bool) -> Session:
        session = self._connect(writing)
        session.guard, session.on_event = self._guard, self._on_event
        return session

    def _reader(self) -> Session:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            try:
                return self._open(False)
            except Unavailable as error:
                raise ConnectionLost(str(error)) from error

    def _read_once(self, session: Session, work: Callable[[Tx], T]) -> T:
        try:
            session.begin()
            answer = work(SqlTx(session))
            session.commit()
        except Exception as error:  # from the driver or from the work
            translated = session.dialect.translate(error)
            try:
                session.rollback()
            except Exception:  # the connection is gone
                session.close()
                raise ConnectionLost(str(translated)) from error
            self._idle.put(session)
            raise translated from error
        self._idle.put(session)
        return answer
